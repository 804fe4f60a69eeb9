"""An import-linter contract: a package may import the standard library, itself and a short list,
nothing else."""

from __future__ import annotations

import sys

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AllowedExternals(Contract):
    """Every import that leaves `source_modules` must be standard library or stand in `allowed`."""

    type_name = "allowed_externals"
    source_modules = fields.ListField(subfield=fields.StringField())
    allowed = fields.ListField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = []
        for source in self.source_modules:
            permitted = (source, *self.allowed)
            for importer in sorted({source, *graph.find_descendants(source)}):
                for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                    standard = imported.split(".")[0] in sys.stdlib_module_names
                    if standard or any(
                        imported == name or imported.startswith(f"{name}.") for name in permitted
                    ):
                        continue
                    found += graph.get_import_details(importer=importer, imported=imported)
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for detail in check.metadata["found"]:
            place = f"{detail['importer']}:{detail['line_number']}"
            output.print_error(
                f"{place} imports {detail['imported']}: {detail['line_contents']}", bold=False
            )

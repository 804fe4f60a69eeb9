"""A person's own documents: manuals and guides of an accelerator, registered for its target, read
where they lie and searched as passages.

Registrations and what is derived stand in KEvolve's home; the documents stay in their folder and
are only ever read. Their text is cleaned of what cannot be seen, bounded, and quoted line by line
wherever it is shown.
"""

from .collection import Documents
from .views import Listed, Registered, without_documents

__all__ = ["Documents", "Listed", "Registered", "without_documents"]

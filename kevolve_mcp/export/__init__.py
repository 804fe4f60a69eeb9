"""What leaves the house: the winner as a package that stands alone, trajectories as training data,
a session as a report.

Nothing here imports torch; the packages it writes do. Reading a package verifies every file against
its manifest.
"""

from .candidate import package_candidate, record_evaluation
from .manifest import Edit, ExportResult, LineageStep, Manifest, Package
from .package import export_package
from .reading import read_package
from .report import SessionFacts, session_report
from .trajectories import (
    Feedback,
    Trajectory,
    TrajectoryAction,
    TrajectoryStep,
    trajectories,
    write_trajectories,
)

__all__ = [
    "Edit",
    "ExportResult",
    "Feedback",
    "LineageStep",
    "Manifest",
    "Package",
    "SessionFacts",
    "Trajectory",
    "TrajectoryAction",
    "TrajectoryStep",
    "export_package",
    "package_candidate",
    "read_package",
    "record_evaluation",
    "session_report",
    "trajectories",
    "write_trajectories",
]

"""A user's own documents: manuals and guides of an accelerator, registered for its target, read in
place and searched as passages.

Registrations and derived data are in KEvolve's home; the documents stay in their folder and are
only read. Invisible characters are removed from their text, its length is limited, and it is quoted
line by line wherever it is shown.
"""

from .collection import Documents
from .views import Listed, Registered, without_documents

__all__ = ["Documents", "Listed", "Registered", "without_documents"]

"""Each part of the editor shows and edits one part of a fabric."""

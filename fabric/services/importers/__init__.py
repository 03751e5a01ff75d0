"""Files and servers of other systems become parts of a fabric."""

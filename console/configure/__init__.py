"""The editor of fabrics: forms made from the fabric's own types, over a draft that is text."""

"""The virtual world runs the production engine in virtual processes, with people, accidents and a watch."""

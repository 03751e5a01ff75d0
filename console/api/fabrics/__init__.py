"""Programs list fabrics, compare them and publish their files."""

"""Files that came in a night, and a handler that reads one."""

TENANTS = ("ann", "bob")


def find_files(run):
    """Return a row for each file of a run."""
    return [
        {"tenant": tenant, "path": f"{run}/{tenant}/{number}"}
        for tenant in TENANTS
        for number in range(12)
    ]


def read_file(item):
    """Return a row of the output."""
    return {"path": item["path"], "size": len(item["path"])}

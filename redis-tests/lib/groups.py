"""Memory control groups for servers under test, of version 1 or 2: one within another that goes with its processes."""

import contextlib
import os


def memory_folders():
    """Folders in which a group of memory may be made, this process's own group first."""
    with open("/proc/self/cgroup") as groups, open("/proc/self/mountinfo") as mounts:
        groups = [line.rstrip("\n").split(":", 2) for line in groups]
        mounts = [line.split(" - ") for line in mounts]
    for _, controllers, path in groups:
        second = controllers == ""
        if not second and "memory" not in controllers.split(","):
            continue
        for place, kind in mounts:
            top, point = place.split()[3:5]
            name, _, options = kind.split(" ", 2)
            if (name != "cgroup2") if second else (name != "cgroup" or "memory" not in options.strip().split(",")):
                continue
            below = os.path.relpath(path, top)
            folder = os.path.normpath(os.path.join(point, "" if below.startswith("..") else below))
            while True:
                yield folder, second
                if folder == point:
                    break
                folder = os.path.dirname(folder)


def begin():
    """Makes a group in which each server has one of its own; its folder, or None and why there is none."""
    why = "the system has no control groups of memory"
    try:
        for folder, second in memory_folders():
            group = os.path.join(folder, f"delayd-small-{os.getpid()}")
            try:
                os.mkdir(group)
                if second:
                    with open(os.path.join(group, "cgroup.subtree_control"), "w") as control:
                        control.write("+memory")
                # Whether it works: a limit that would be given to a server.
                trial = os.path.join(group, "trial")
                os.mkdir(trial)
                limit = "memory.max" if second else "memory.limit_in_bytes"
                with open(os.path.join(trial, limit), "w") as file:
                    file.write("100663296")
                os.rmdir(trial)
                return group, None
            except OSError as error:
                why = f"{folder}: {error.strerror or error}"
                end(group)
    except OSError as error:
        why = str(error)
    return None, why


def killed(group):
    """How many processes the limits have killed."""
    count = 0
    for folder, _, files in os.walk(group):
        for name in ("memory.oom_control", "memory.events"):
            if name in files and folder != group:
                with contextlib.suppress(OSError), open(os.path.join(folder, name)) as file:
                    count += sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return count


def end(group):
    """Removes the group and those in it, whose processes have ended."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)

"""A program that takes its time to be imported by a child process."""

import multiprocessing
import time

if multiprocessing.current_process().name == "delayd-child":
    time.sleep(2)


def work(body):
    """Quick."""

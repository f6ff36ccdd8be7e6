"""Tasks of the Django tests."""

from django.tasks import task

from delayd import Bury, Retry, Snooze


@task
def empty(*args, **kwargs):
    pass


@task
async def empty_async(*args, **kwargs):
    pass


@task
def meaning_of_life():
    return 42


@task
async def meaning_of_life_async():
    return 42


@task(takes_context=True)
def attempt_and_id(context):
    return [context.attempt, context.task_result.id]


@task
def fails(text="This Task failed due to ValueError"):
    raise ValueError(text)


@task
def exits():
    raise SystemExit("This Task failed due to SystemExit")


@task
def unsupported():
    return fails


@task(takes_context=True)
def second_time_lucky(context):
    if context.attempt == 1:
        raise Retry(after="1ms")
    return "done"


@task
def buried():
    raise Bury("never")


@task
def snoozed():
    raise Snooze("1h")

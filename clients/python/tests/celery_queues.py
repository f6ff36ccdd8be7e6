"""The queues of the tests' application, for workers and senders alike."""

from kombu import Exchange, Queue
from kombu.common import Broadcast

QUEUES = [
    Queue("celery"),
    Queue("mails"),
    Queue("news", Exchange("topics", type="topic"), routing_key="news.#"),
    Broadcast("everywhere"),
]

"""Celery and kombu on delayd: ``broker_url = "delayd://localhost:9248/0"``.

Countdowns and ETAs stay in the server until their millisecond. A worker extends the lease of what it holds, so a message
comes again only when its worker is gone. Priorities, routing, events and remote control are those of kombu's Redis
transport. There is no result backend: delayd keeps jobs, not values.

``pip install delayd[celery]`` makes the URLs known to kombu, by an entry point that it loads. A program that runs from a
source tree imports this module instead. `docs/from-celery.md` has the options.
"""

import json

from kombu.transport import TRANSPORT_ALIASES

TRANSPORT_ALIASES.update(
    {
        "delayd": "delayd.celery.transport:Transport",
        "delayds": "delayd.celery.transport:TLSTransport",
        "delayd-sentinel": "delayd.celery.transport:SentinelTransport",
    }
)

#: kombu has no entry point for transports. It loads those for serializers before it looks at a URL, so this module is one:
#: JSON under a name of its own, which nothing uses.
serializer = (json.dumps, json.loads, "application/x-delayd+json", "utf-8")

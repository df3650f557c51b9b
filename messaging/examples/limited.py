# SPDX-License-Identifier: Apache-2.0
"""Passes lines on at the rate of a bucket that giusto-limit limits, in order; whatever they come from and go to.

    limited.py LIMITER BUCKET <lines >lines    for example: kcat -C -b kafka:9092 -t orders | limited.py 127.0.0.1:4181 orders | ./handler

What waits stays where the lines come from: its pipe is not read. In an application, take() before each message, or once for a batch.
"""
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


def take(limiter, bucket, hits=1):
    """Returns when tokens are there for so many messages. As long as the limiter cannot grant any it asks again: none passes without."""
    question = urllib.parse.urlencode({"bucket": bucket, "hits": hits, "wait": "10s"})
    while True:
        try:
            with urllib.request.urlopen("http://%s/take?%s" % (limiter, question), timeout=15) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                raise SystemExit("%s: %s" % (limiter, error.read().decode()))
            pause = min(1, float(error.headers.get("Retry-After", 1)))
        except OSError:  # it is being started again
            pause = 0.1
        time.sleep(pause)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    for line in sys.stdin:
        take(sys.argv[1], sys.argv[2])
        sys.stdout.write(line)
        sys.stdout.flush()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nsqd's own tests of its protocol, against giusto-broker.

    clients/upstream.py [-run REGEXP] [-v]

Takes protocol_v2_test.go of the pinned nsqd from Go's module cache, changes it by rule so that each test starts a broker of
ours instead of nsqd, and runs it. Nothing of it is kept. Expects that all pass but those of DIFFERENT, and that these fail:
docs/messaging.md says why.
Exit: 0 as expected, 1 not, 77 no Go or no module.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOM = Path(__file__).resolve().parent.parent
# What differs, and the text by which the test fails.
DIFFERENT = {
    "TestClientTimeout": "heartbeat interval (75) is invalid",
    "TestClientHeartbeat": "heartbeat interval (100) is invalid",
    "TestOutputBuffering": "!= false (actual)",
}
# These have no broker in them: nsqd's parser of names, and its loop over a false connection.
LEFT_OUT = {"TestChannelTopicNames", "TestIOLoopReturnsClientErrWhenSendFails", "TestIOLoopReturnsClientErrWhenSendSucceeds"}

# Into nsqd's package: what its tests see of its insides.
INSIDES = """package nsqd

import "sync"

func DecodeMessage(b []byte) (*Message, error) { return decodeMessage(b) }

func (c *Channel) InsideMemoryMsgChan() *chan *Message { return &c.memoryMsgChan }
func (c *Channel) InsideDeferredMutex() *sync.Mutex { return &c.deferredMutex }
func (c *Channel) InsideInFlightMutex() *sync.Mutex { return &c.inFlightMutex }
func (c *Channel) InsideInFlightMessages() *map[MessageID]*Message { return &c.inFlightMessages }
func (c *Channel) InsideMessageCount() *uint64 { return &c.messageCount }
func (c *Channel) InsideRequeueCount() *uint64 { return &c.requeueCount }
func (c *Channel) InsideTimeoutCount() *uint64 { return &c.timeoutCount }

type Deferred struct{ Priority int64 }

func (c *Channel) InsideDeferredMessages() *map[MessageID]*Deferred {
	all := map[MessageID]*Deferred{}
	for id, item := range c.deferredMessages {
		all[id] = &Deferred{item.Priority}
	}
	return &all
}
"""
# Into the broker's: a broker of nsqd's options. Those that no file of ours has go to the nsqd inside.
BROKER = """package broker

import (
	"github.com/nsqio/nsq/nsqd"
	"giusto.dev/messaging/settings"
)

func Upstream(o *nsqd.Options) (*Broker, *nsqd.NSQD, error) {
	s, err := settings.Parse([]byte("listen: 127.0.0.1:0\\nhttp: 127.0.0.1:0\\nnode: 1\\n"))
	if err != nil {
		return nil, nil, err
	}
	s.Data, s.Auth = o.DataPath, o.AuthHTTPAddresses
	s.MaxMessage, s.MaxBody = settings.Size(o.MaxMsgSize), settings.Size(o.MaxBodySize)
	s.MemQueue, s.SyncEvery, s.MsgTimeout = o.MemQueueSize, o.SyncEvery, settings.Duration(o.MsgTimeout)
	s.ClientTimeout, s.MaxHeartbeat = settings.Duration(o.ClientTimeout), settings.Duration(o.MaxHeartbeatInterval)
	if o.TLSCert != "" {
		s.TLS = &settings.TLS{Certificate: o.TLSCert, Key: o.TLSKey, ClientCA: o.TLSRootCAFile, ClientAuth: o.TLSClientAuthPolicy}
		if o.TLSRequired == nsqd.TLSRequired || o.TLSClientAuthPolicy != "" {
			s.TLS.Required = settings.Everywhere
		} else if o.TLSRequired == nsqd.TLSRequiredExceptHTTP {
			s.TLS.Required = settings.ButHTTP
		}
	}
	tune = func(inner *nsqd.Options) {
		listen, data, id := [3]string{inner.TCPAddress, inner.HTTPAddress, inner.HTTPSAddress}, inner.DataPath, inner.ID
		*inner = *o
		inner.TCPAddress, inner.HTTPAddress, inner.HTTPSAddress = listen[0], listen[1], listen[2]
		inner.DataPath, inner.ID = data, id
		inner.TLSCert, inner.TLSKey, inner.TLSRootCAFile, inner.TLSClientAuthPolicy = "", "", "", ""
		inner.TLSRequired, inner.AuthHTTPAddresses = 0, nil
	}
	b, err := Start(s, func(form string, words ...any) {})
	if err != nil {
		return nil, nil, err
	}
	return b, b.engine.NSQD, nil
}
"""
# Into the tests.
START = """package nsqd_test

import (
	"net"
	"os"

	. "github.com/nsqio/nsq/nsqd"
	"github.com/nsqio/go-nsq"
	"giusto.dev/messaging/broker"
)

const frameTypeResponse, frameTypeError, frameTypeMessage = nsq.FrameTypeResponse, nsq.FrameTypeError, nsq.FrameTypeMessage

var started = map[*NSQD]*broker.Broker{}

func mustStartNSQD(opts *Options) (net.Addr, net.Addr, *NSQD) {
	var err error
	if opts.DataPath == "" {
		if opts.DataPath, err = os.MkdirTemp("", "nsq-test-"); err != nil {
			panic(err)
		}
	}
	b, n, err := broker.Upstream(opts)
	if err != nil {
		panic(err)
	}
	started[n] = b
	return b.Addr(), b.HTTPAddr(), n
}

func end(n *NSQD) { started[n].Stop() }
"""


def ported(text):
    """The tests, changed by rule."""
    def change(pattern, by):
        nonlocal text
        text, count = re.subn(pattern, by, text)
        if not count:
            raise SystemExit(f"upstream: nothing is '{pattern}' in nsqd's tests: is it another version?")
    change(r"^package nsqd\n", "package nsqd_test\n")
    change(r'import \(\n', 'import (\n\t. "github.com/nsqio/nsq/nsqd"\n')
    change(r"func mustStartNSQD\((.|\n)*?\n}\n", "")
    change(r"\bdecodeMessage\(", "DecodeMessage(")
    change(r"defer nsqd\.Exit\(\)", "defer end(nsqd)")
    inside = "memoryMsgChan|deferredMutex|deferredMessages|inFlightMutex|inFlightMessages|messageCount|requeueCount|timeoutCount"
    change(rf"(&?)\b(ch|channel)\.({inside})\b", lambda m: ("" if m[1] else "*" if "Mutex" not in m[3] else "") +
           f"{m[2]}.Inside{m[3][0].upper()}{m[3][1:]}()")
    change(r"(\*channel\.InsideDeferredMessages\(\))\[", r"(\1)[")
    change(r"func testIOLoopReturnsClientErr\((.|\n)*?\n}\n",
            "func testIOLoopReturnsClientErr(_ *testing.T, _ test.FakeNetConn) {}\n")
    change(r"func Benchmark.*}\n", "")
    change(r"func (Bench|bench)(.|\n)*?\n}\n", "")
    for name in re.findall(r'(?m)^\t"([a-z/]+)"$', text):
        if not re.search(rf"\b{name.rsplit('/', 1)[-1]}\.", text):
            text = text.replace(f'\t"{name}"\n', "")
    return text


def main():
    if not shutil.which("go"):
        print("upstream: go is missing", file=sys.stderr)
        return 77
    go = lambda *words, **more: subprocess.run(["go", *words], cwd=ROOM, text=True, capture_output=True, **more)
    found = go("list", "-m", "-json", "github.com/nsqio/nsq")
    module = json.loads(found.stdout or "{}")
    if "Dir" not in module:
        print("upstream: nsqd's module is not there: go mod download", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as folder:
        nsq = Path(folder) / "nsq"
        shutil.copytree(module["Dir"], nsq)
        subprocess.run(["chmod", "-R", "u+w", nsq], check=True)
        tests = nsq / "nsqd" / "protocol_v2_test.go"
        text = ported(tests.read_text())
        for other in (nsq / "nsqd").glob("*_test.go"):
            other.unlink()
        tests.write_text(text)
        (nsq / "nsqd" / "start_test.go").write_text(START)
        (nsq / "nsqd" / "insides.go").write_text(INSIDES)
        hook = Path(folder) / "upstream.go"
        hook.write_text(BROKER)
        overlay = Path(folder) / "overlay.json"
        overlay.write_text(json.dumps({"Replace": {str(ROOM / "broker" / "upstream.go"): str(hook)}}))
        version = go("env", "GOVERSION").stdout.strip().removeprefix("go")
        # Old certificates of the tests are taken as nsqd's own build takes them.
        old = re.search(r"(?m)^go (\S+)", (nsq / "go.mod").read_text())[1]
        (Path(folder) / "go.work").write_text(f"go {version}\n\ngodebug default=go{old}\n\nuse {nsq}\nuse {ROOM}\n")
        run = sys.argv[sys.argv.index("-run") + 1] if "-run" in sys.argv else "."
        out = subprocess.run(["go", "test", "-json", "-count=1", "-timeout", "5m", "-overlay", overlay, "-run", run, "."],
                cwd=nsq / "nsqd", text=True,
                             capture_output=True, env={**os.environ, "GOWORK": str(Path(folder) / "go.work"),
                                     "GOFLAGS": "-mod=readonly"})
    return judge(out, "-v" in sys.argv)


def judge(out, verbose):
    said, ended = {}, {}
    for line in out.stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            print(line)
            continue
        name = event.get("Test")
        if event["Action"] in ("output", "build-output"):
            said[name] = said.get(name, "") + event["Output"]
        elif name and event["Action"] in ("pass", "fail"):
            ended[name] = event["Action"]
    if not ended or verbose:
        print(out.stderr, *said.values(), sep="\n")
    counted = {name: how for name, how in ended.items() if name not in LEFT_OUT}
    wrong = [name for name in said if name and name not in ended]
    for name, how in counted.items():
        text = said.get(name, "")
        if name in DIFFERENT and (how == "pass" or DIFFERENT[name] not in text):
            wrong.append(name)
            print(f"upstream: {name} differs no more as it did: {how}\n{text}")
        elif name not in DIFFERENT and how == "fail":
            wrong.append(name)
            print(f"upstream: {name} failed:\n{text}")
    passed = sum(how == "pass" for how in counted.values())
    print(f"upstream: nsqd's tests of its protocol: {passed} of {len(counted)} pass, "
          f"{len(DIFFERENT)} differ for a reason, {len(wrong)} wrong {wrong or ''}")
    return 1 if wrong or not counted else 0


if __name__ == "__main__":
    sys.exit(main())

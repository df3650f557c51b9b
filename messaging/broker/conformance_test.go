// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

// stock runs nsqd as it is, with the limits of sizes that the broker beside it has.
func stock(t testing.TB, set func(*nsqd.Options)) *nsqd.NSQD {
	t.Helper()
	o := nsqd.NewOptions()
	o.TCPAddress, o.HTTPAddress, o.HTTPSAddress, o.DataPath = "127.0.0.1:0", "127.0.0.1:0", "", t.TempDir()
	o.LogLevel = nsqd.LOG_FATAL
	if set != nil {
		set(o)
	}
	n, err := nsqd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	go n.Main()
	t.Cleanup(n.Exit)
	return n
}

func be(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

func sized(text string) string { return be(uint32(len(text))) + text }

// said is all frames that come until the server closes, or says nothing for a while.
func said(t testing.TB, address string, parts []string, half bool) string {
	t.Helper()
	return saidWithin(t, address, parts, half, 250*time.Millisecond)
}

func saidWithin(t testing.TB, address string, parts []string, half bool, silence time.Duration) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for n, part := range parts {
		if n > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		io.WriteString(conn, part)
	}
	if half {
		conn.(*net.TCPConn).CloseWrite()
	}
	var out strings.Builder
	for {
		conn.SetReadDeadline(time.Now().Add(silence))
		var head [8]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				return out.String() + "open"
			}
			return out.String() + "closed"
		}
		size := binary.BigEndian.Uint32(head[:])
		if size < 4 || size > 1<<20 {
			return out.String() + fmt.Sprintf("no frame: %q", head)
		}
		body := make([]byte, size-4)
		if _, err := io.ReadFull(conn, body); err != nil {
			return out.String() + "half a frame"
		}
		fmt.Fprintf(&out, "%d %s\n", binary.BigEndian.Uint32(head[4:]), body)
	}
}

const v2 = "  V2"

func identify(json string) string { return "IDENTIFY\n" + sized(json) }

// transcript is what a producer sends. Where our answer differs from nsqd's, why, and what ours is.
type transcript struct {
	name  string
	sent  []string
	half  bool // then it closes its side
	why   string
	ours  string
	wants string // a part of the answer, so that a wrong transcript shows
}

func transcripts() []transcript {
	long := strings.Repeat("a", 65)
	one := func(name, sent, wants string) transcript {
		return transcript{name: name, sent: []string{v2 + sent}, wants: wants}
	}
	half := func(name, sent, wants string) transcript {
		return transcript{name: name, sent: []string{v2 + sent}, half: true, wants: wants}
	}
	return []transcript{
		one("publish", "PUB t\n"+sized("x"), "0 OK"),
		one("two in one write", "PUB t\n"+sized("x")+"PUB t\n"+sized("y"), "0 OK\n0 OK"),
		{name: "a byte at a time", sent: strings.Split(v2+"PUB t\n"+sized("x"), ""), wants: "0 OK"},
		one("carriage return", "PUB t\r\n"+sized("x"), "0 OK"),
		one("more parameters", "PUB t more\n"+sized("x"), "0 OK"),
		one("no parameter", "PUB\n"+sized("x"), "E_INVALID"),
		one("empty topic", "PUB \n"+sized("x"), "E_BAD_TOPIC"),
		one("bad topic", "PUB a*b\n"+sized("x"), "E_BAD_TOPIC"),
		one("long topic", "PUB "+long+"\n"+sized("x"), "E_BAD_TOPIC"),
		one("ephemeral topic", "PUB e#ephemeral\n"+sized("x"), "0 OK"),
		one("two spaces", "PUB  t\n"+sized("x"), "E_BAD_TOPIC"),
		one("empty message", "PUB t\n"+be(0), "E_BAD_MESSAGE"),
		one("4 GB", "PUB t\n"+be(0xffffffff), "E_BAD_MESSAGE"),
		one("2 GB", "PUB t\n"+be(0x7fffffff), "E_BAD_MESSAGE"),
		one("a byte too big", "PUB t\n"+be(1<<20+1), "E_BAD_MESSAGE"),
		half("no size", "PUB t\n", "E_BAD_MESSAGE"),
		half("half a size", "PUB t\n\x00\x00", "E_BAD_MESSAGE"),
		half("half a body", "PUB t\n"+be(10)+"abc", "E_BAD_MESSAGE"),
		half("half a line", "PU", "closed"),
		one("a long line", strings.Repeat("x", 20_000), "closed"),
		one("empty line", "\n", "E_INVALID"),
		one("no such command", "HELLO\n", "E_INVALID"),
		one("lower case", "pub t\n"+sized("x"), "E_INVALID"),
		{name: "bad magic", sent: []string{"  V1"}, wants: "E_BAD_PROTOCOL"},
		{name: "HTTP", sent: []string{"GET / HTTP/1.0\r\n\r\n"}, wants: "closed"},
		half("nothing", "", "closed"),
		one("NOP", "NOP\nNOP\nPUB t\n"+sized("x"), "0 OK"),
		one("batch", "MPUB t\n"+sized(be(2)+sized("a")+sized("bc")), "0 OK"),
		one("batch, no parameter", "MPUB\n", "E_INVALID"),
		one("batch, bad topic", "MPUB a*b\n", "E_BAD_TOPIC E_BAD_TOPIC"),
		one("batch of none", "MPUB t\n"+sized(be(0)), "E_BAD_BODY"),
		one("batch of 4 G", "MPUB t\n"+sized(be(0xffffffff)), "E_BAD_BODY"),
		one("batch of too many", "MPUB t\n"+sized(be(1<<21)), "E_BAD_BODY"),
		one("batch, empty body", "MPUB t\n"+be(0), "E_BAD_BODY"),
		one("batch too big", "MPUB t\n"+be(5<<20+1), "E_BAD_BODY"),
		one("batch, empty message", "MPUB t\n"+sized(be(2)+sized("a")+be(0)), "E_BAD_MESSAGE"),
		one("batch, 4 GB message", "MPUB t\n"+sized(be(1)+be(0xfffffff0)), "E_BAD_MESSAGE"),
		one("batch, message too big", "MPUB t\n"+sized(be(1)+be(1<<20+1)), "E_BAD_MESSAGE"),
		half("batch, no size", "MPUB t\n", "E_BAD_BODY"),
		half("batch, no count", "MPUB t\n"+be(8), "E_BAD_BODY"),
		half("batch, no message", "MPUB t\n"+be(12)+be(1), "E_BAD_MESSAGE"),
		half("batch, half a message", "MPUB t\n"+be(12)+be(1)+be(4)+"x", "E_BAD_MESSAGE"),
		one("batch shorter than its size", "MPUB t\n"+be(100)+be(1)+sized("a")+"NOP\nPUB t\n"+sized("x"), "0 OK\n0 OK"),
		one("deferred", "DPUB t 1000\n"+sized("x"), "0 OK"),
		one("deferred by nothing", "DPUB t 0\n"+sized("x"), "0 OK"),
		one("deferred, empty number", "DPUB t \n"+sized("x"), "0 OK"),
		one("deferred, no number", "DPUB t\n"+sized("x"), "E_INVALID"),
		one("deferred, not a number", "DPUB t 1s\n"+sized("x"), "E_INVALID"),
		one("deferred, negative", "DPUB t -1\n"+sized("x"), "E_INVALID"),
		one("deferred too long", "DPUB t 3600001\n"+sized("x"), "E_INVALID"),
		one("deferred, wraps", "DPUB t 18446744073709551617\n"+sized("x"), "0 OK"),
		one("deferred, bad topic", "DPUB a*b x\n"+sized("x"), "E_BAD_TOPIC"),
		one("deferred, empty message", "DPUB t 10\n"+be(0), "E_BAD_MESSAGE"),
		one("deferred, too big", "DPUB t 10\n"+be(1<<20+1), "E_BAD_MESSAGE"),
		half("deferred, no size", "DPUB t 10\n", "E_BAD_MESSAGE"),
		half("deferred, half a body", "DPUB t 10\n"+be(4)+"x", "E_BAD_MESSAGE"),
		one("identify", identify(`{"client_id":"a"}`)+"PUB t\n"+sized("x"), "0 OK\n0 OK"),
		one("negotiate", identify(`{"feature_negotiation":true}`)+"PUB t\n"+sized("x"), "max_rdy_count"),
		one("negotiate all", identify(`{"feature_negotiation":true,"heartbeat_interval":2000,"output_buffer_size":1024,`+
			`"output_buffer_timeout":100,"sample_rate":10,"msg_timeout":5000,"client_id":"a","hostname":"b","user_agent":"c"}`), `"msg_timeout":5000`),
		one("negotiate no buffer", identify(`{"feature_negotiation":true,"output_buffer_size":-1}`), `"output_buffer_size":1,`),
		one("negotiate no buffer time-out", identify(`{"feature_negotiation":true,"output_buffer_timeout":-1}`), `"output_buffer_timeout":0`),
		one("no heartbeats", identify(`{"heartbeat_interval":-1}`)+"PUB t\n"+sized("x"), "0 OK\n0 OK"),
		one("no heartbeats, then SUB", identify(`{"heartbeat_interval":-1}`)+"SUB t c\n", "E_INVALID"),
		one("TLS asked for, not there", identify(`{"feature_negotiation":true,"tls_v1":true}`)+"NOP\n", `"tls_v1":false`),
		one("heartbeats too fast", identify(`{"heartbeat_interval":10}`), "E_BAD_BODY"),
		one("heartbeats too slow", identify(`{"heartbeat_interval":60001}`), "E_BAD_BODY"),
		one("buffer too small", identify(`{"output_buffer_size":3}`), "E_BAD_BODY"),
		one("buffer time-out too short", identify(`{"output_buffer_timeout":1}`), "E_BAD_BODY"),
		one("sample rate", identify(`{"sample_rate":100}`), "E_BAD_BODY"),
		one("message time-out", identify(`{"msg_timeout":1}`), "E_BAD_BODY"),
		one("identify, not JSON", identify(`{`), "E_BAD_BODY"),
		one("identify, other types", identify(`{"client_id":1}`), "E_BAD_BODY"),
		one("identify, empty", "IDENTIFY\n"+be(0), "E_BAD_BODY"),
		one("identify, 4 GB", "IDENTIFY\n"+be(0xffffffff), "E_BAD_BODY"),
		one("identify, 2 GB", "IDENTIFY\n"+be(0x7fffffff), "E_BAD_BODY"),
		half("identify, no size", "IDENTIFY\n", "E_BAD_BODY"),
		half("identify, half a body", "IDENTIFY\n"+be(4)+"{", "E_BAD_BODY"),
		one("identify twice", identify(`{}`)+identify(`{}`), "0 OK\n0 OK"),
		one("AUTH, disabled", "AUTH\n"+sized("secret"), "E_AUTH_DISABLED"),
		one("AUTH, parameter", "AUTH x\n"+sized("secret"), "E_INVALID"),
		one("AUTH, empty", "AUTH\n"+be(0), "E_BAD_BODY"),
		one("AUTH, 4 GB", "AUTH\n"+be(0xffffffff), "E_BAD_BODY"),
		half("AUTH, half a body", "AUTH\n"+be(4)+"x", "E_BAD_BODY"),
		one("FIN of a producer", "FIN 0123456789abcdef\n", "E_INVALID"),
		one("RDY of a producer", "RDY 1\n", "E_INVALID"),
		one("REQ of a producer", "REQ 0123456789abcdef 0\n", "E_INVALID"),
		one("TOUCH of a producer", "TOUCH 0123456789abcdef\n", "E_INVALID"),
		one("CLS of a producer", "CLS\n", "E_INVALID"),
		one("SUB", "SUB s c#ephemeral\n", "0 OK\nopen"),
		one("SUB, no channel", "SUB s\n", "E_INVALID"),
		one("SUB, bad topic", "SUB a*b c\n", "E_BAD_TOPIC"),
		one("SUB, bad channel", "SUB s a*b\n", "E_BAD_CHANNEL"),
		one("SUB twice", "SUB s c#ephemeral\nSUB s d\n", "E_INVALID"),
		one("SUB, then IDENTIFY", "SUB s c#ephemeral\n"+identify("{}"), "E_INVALID"),
		one("SUB, then AUTH", "SUB s c#ephemeral\nAUTH\n"+sized("x"), "E_INVALID"),
		one("SUB, then PUB", "SUB s c#ephemeral\nRDY 0\nPUB u\n"+sized("x")+"NOP\n", "0 OK\n0 OK\nopen"),
		one("SUB, then a bad PUB", "SUB s c#ephemeral\nPUB u\n"+be(0), "E_BAD_MESSAGE"),
		one("SUB, then RDY", "SUB s c#ephemeral\nRDY 2501\n", "E_INVALID"),
		one("SUB, then FIN of none", "SUB s c#ephemeral\nRDY 1\nFIN 0123456789abcdef\nNOP\n", "E_FIN_FAILED"),
		one("SUB, then a bad FIN", "SUB s c#ephemeral\nFIN 1\n", "E_INVALID"),
		one("SUB, then REQ of none", "SUB s c#ephemeral\nREQ 0123456789abcdef 0\n", "E_REQ_FAILED"),
		one("SUB, then TOUCH of none", "SUB s c#ephemeral\nTOUCH 0123456789abcdef\n", "E_TOUCH_FAILED"),
		one("SUB, then CLS", "SUB s c#ephemeral\nCLS\n", "CLOSE_WAIT"),
		one("SUB, then nonsense", "SUB s c#ephemeral\nHELLO\n", "E_INVALID"),
		one("snappy asked for", identify(`{"feature_negotiation":true,"snappy":true}`), `"snappy":true`),
		one("deflate asked for", identify(`{"feature_negotiation":true,"deflate":true,"deflate_level":3}`), `"deflate":true,"deflate_level":3`),
		one("deflate of too high a level", identify(`{"feature_negotiation":true,"deflate":true,"deflate_level":9}`), `"deflate_level":6`),
		one("deflate without a level", identify(`{"feature_negotiation":true,"deflate":true}`), `"deflate_level":6`),
		one("both compressions", identify(`{"feature_negotiation":true,"deflate":true,"snappy":true}`), "E_IDENTIFY_FAILED"),
		one("compression, not negotiated", identify(`{"snappy":true}`), "0 OK"),
		{name: "a batch larger than the largest body", sent: []string{v2 + "MPUB t\n" + be(100) + be(6) +
			strings.Repeat(sized(strings.Repeat("x", 1<<20)), 5)},
			why: "nsqd takes any number of largest messages in one MPUB, whatever size it says", ours: "1 E_BAD_BODY MPUB messages are together bigger than 5242880\n"},
	}
}

// The law: every answer of ours to a producer equals nsqd's, byte for byte, or stands above with its reason.
func TestTheAnswersAreThoseOfNsqd(t *testing.T) {
	n, b := stock(t, nil), start(t, "topics: {limited: {rate: 1M/s, depth: 1000, limit: publishing}}")
	defer b.Stop()
	same, different := beside(t, n.RealTCPAddr().String(), b.Addr().String(), transcripts())
	fmt.Printf("broker: %d transcripts answered as nsqd does, %d differently, with a reason\n", same, different)
}

// The same where TLS is required, and where an auth server must be asked.
func TestTheAnswersAreThoseOfNsqdWithTLSAndAuth(t *testing.T) {
	pair := certificate(t)
	paths := strings.Fields(strings.NewReplacer(",", "", "certificate:", "", "key:", "").Replace(pair))
	auth, _ := authServer(t)
	strict := stock(t, func(o *nsqd.Options) { o.TLSCert, o.TLSKey, o.TLSRequired = paths[0], paths[1], nsqd.TLSRequired })
	b := start(t, "tls: {"+pair+", required: true}")
	defer b.Stop()
	one := func(name, sent, wants string) transcript {
		return transcript{name: name, sent: []string{v2 + sent}, wants: wants}
	}
	none, other := beside(t, strict.RealTCPAddr().String(), b.Addr().String(), []transcript{
		one("PUB without TLS", "PUB t\n"+sized("x"), "E_INVALID cannot PUB in current state (TLS required)"),
		one("SUB without TLS", "SUB t c\n", "TLS required"),
		one("AUTH without TLS", "AUTH\n"+sized("x"), "TLS required"),
		one("NOP without TLS", "NOP\n", "TLS required"),
		one("negotiated without TLS", identify(`{"feature_negotiation":true}`)+"NOP\n", "TLS required"),
		{name: "no handshake", sent: []string{v2 + identify(`{"feature_negotiation":true,"tls_v1":true}`), "PUB t\n" + sized("x")}, wants: "E_IDENTIFY_FAILED"},
		{name: "no handshake, in one write", sent: []string{v2 + identify(`{"feature_negotiation":true,"tls_v1":true}`) + "PUB t\n" + sized("x")},
			why: "nsqd drops what came in one read with IDENTIFY and waits", ours: "E_IDENTIFY_FAILED"},
	})
	asking := stock(t, func(o *nsqd.Options) { o.AuthHTTPAddresses = []string{auth} })
	a := start(t, "auth: ["+auth+"]")
	defer a.Stop()
	good := "AUTH\n" + sized("good")
	some, _ := beside(t, asking.RealTCPAddr().String(), a.Addr().String(), []transcript{
		one("PUB before AUTH", "PUB mine\n"+sized("x"), "E_AUTH_FIRST"),
		one("MPUB before AUTH", "MPUB mine\n", "E_AUTH_FIRST"),
		one("DPUB before AUTH", "DPUB mine 1\n"+sized("x"), "E_AUTH_FIRST"),
		one("SUB before AUTH", "SUB mine c\n", "E_AUTH_FIRST"),
		one("negotiated", identify(`{"feature_negotiation":true}`), `"auth_required":true`),
		one("a good secret", good+"PUB mine\n"+sized("x")+"MPUB mine\n"+sized(be(1)+sized("x"))+"DPUB mine 1\n"+sized("x"), "0 OK\n0 OK\n0 OK"),
		one("another topic", good+"PUB yours\n"+sized("x"), "E_UNAUTHORIZED"),
		one("another topic, MPUB", good+"MPUB yours\n", "E_UNAUTHORIZED"),
		one("another topic, SUB", good+"SUB yours c\n", "E_UNAUTHORIZED"),
		one("SUB", good+"SUB mine c#ephemeral\n", "0 OK"),
		one("a bad secret", "AUTH\n"+sized("bad"), "E_AUTH_FAILED"),
		one("AUTH twice", good+good, "E_INVALID"),
	})
	fmt.Printf("broker: %d transcripts with TLS required, %d with AUTH answered as nsqd does, %d differently, with a reason\n", none, some, other)
}

// beside plays transcripts to both, and says how many were answered alike, and how many differently as written.
func beside(t *testing.T, nsqd, broker string, all []transcript) (same, different int) {
	var playing sync.WaitGroup
	var counting sync.Mutex
	turns := make(chan struct{}, 24)
	for number, tr := range all {
		for _, topic := range []string{"t", "limited"} {
			parts := append([]string{}, tr.sent...)
			for i := range parts {
				parts[i] = strings.ReplaceAll(parts[i], "SUB s c", fmt.Sprintf("SUB s c%d", number)) // no two share a channel
			}
			if topic == "limited" {
				for i := range parts {
					parts[i] = strings.ReplaceAll(parts[i], "PUB t", "PUB limited")
				}
				if !strings.Contains(strings.Join(parts, ""), "limited") {
					continue
				}
			}
			playing.Add(1)
			go func() {
				defer playing.Done()
				turns <- struct{}{}
				theirs := said(t, nsqd, parts, tr.half)
				ours := said(t, broker, parts, tr.half)
				if (tr.why == "") != (ours == theirs) || !strings.Contains(ours, tr.ours) || !strings.Contains(theirs, tr.wants) { // one of them may have been slow
					theirs = saidWithin(t, nsqd, parts, tr.half, 3*time.Second)
					ours = saidWithin(t, broker, parts, tr.half, 3*time.Second)
				}
				<-turns
				if tr.why == "" && ours != theirs {
					t.Errorf("%s, %s:\nours %q\nnsqd %q", tr.name, topic, ours, theirs)
				}
				if tr.why != "" && (ours == theirs || !strings.Contains(ours, tr.ours)) {
					t.Errorf("%s: not different as is written:\nours %q\nnsqd %q", tr.name, ours, theirs)
				}
				if !strings.Contains(theirs, tr.wants) {
					t.Errorf("%s: the transcript does not do what it is to do: nsqd %q", tr.name, theirs)
				}
				counting.Lock()
				defer counting.Unlock()
				if tr.why == "" {
					same++
				} else {
					different++
				}
			}()
		}
	}
	playing.Wait()
	return same, different
}

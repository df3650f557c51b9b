// SPDX-License-Identifier: Apache-2.0

// echo is the least that can stand in a broker's place: it reads PUB, answers OK, and writes the message to the one
// consumer there is. No queue, no limit, no account. What it takes is the floor of this machine, this load and Go.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"sync/atomic"
	"time"
)

func frame(kind uint32, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	text := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	return append(binary.BigEndian.AppendUint32(text, kind), body...)
}

var (
	ok       = frame(0, []byte("OK"))
	consumer atomic.Pointer[net.TCPConn]
	last     atomic.Uint64 // id
)

func serve(conn *net.TCPConn) error {
	defer conn.Close()
	from := bufio.NewReaderSize(conn, 16<<10)
	if _, err := from.Discard(4); err != nil { // "  V2"
		return err
	}
	for {
		line, err := from.ReadSlice('\n')
		if err != nil {
			return err
		}
		command, _, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		switch string(command) {
		case "SUB":
			consumer.Store(conn)
		case "PUB", "IDENTIFY":
			published := string(command) == "PUB"
			var size [4]byte
			if _, err := io.ReadFull(from, size[:]); err != nil {
				return err
			}
			body := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(from, body); err != nil {
				return err
			}
			if to := consumer.Load(); published && to != nil {
				head := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
				head = fmt.Appendf(append(head, 0, 1), "%016x", last.Add(1))
				if _, err := to.Write(frame(2, head, body)); err != nil {
					return err
				}
			}
		default: // RDY, FIN, NOP
			continue
		}
		if _, err := conn.Write(ok); err != nil {
			return err
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("echo: ready: %s, http -\n", listener.Addr())
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(conn.(*net.TCPConn))
	}
}

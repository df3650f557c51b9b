// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"giusto.dev/messaging/settings"
)

// identity is what a client may say of itself: nsqd's names and types.
type identity struct {
	ClientID            string `json:"client_id"`
	Hostname            string `json:"hostname"`
	HeartbeatInterval   int    `json:"heartbeat_interval"`
	OutputBufferSize    int    `json:"output_buffer_size"`
	OutputBufferTimeout int    `json:"output_buffer_timeout"`
	FeatureNegotiation  bool   `json:"feature_negotiation"`
	TLSv1               bool   `json:"tls_v1"`
	Deflate             bool   `json:"deflate"`
	DeflateLevel        int    `json:"deflate_level"`
	Snappy              bool   `json:"snappy"`
	SampleRate          int32  `json:"sample_rate"`
	UserAgent           string `json:"user_agent"`
	MsgTimeout          int    `json:"msg_timeout"`
}

// agreed is the answer to a client that negotiates, in nsqd's order.
type agreed struct {
	MaxRdyCount         int64  `json:"max_rdy_count"`
	Version             string `json:"version"`
	MaxMsgTimeout       int64  `json:"max_msg_timeout"`
	MsgTimeout          int64  `json:"msg_timeout"`
	TLSv1               bool   `json:"tls_v1"`
	Deflate             bool   `json:"deflate"`
	DeflateLevel        int    `json:"deflate_level"`
	MaxDeflateLevel     int    `json:"max_deflate_level"`
	Snappy              bool   `json:"snappy"`
	SampleRate          int32  `json:"sample_rate"`
	AuthRequired        bool   `json:"auth_required"`
	OutputBufferSize    int    `json:"output_buffer_size"`
	OutputBufferTimeout int64  `json:"output_buffer_timeout"`
}

// chunk reads the body of IDENTIFY and AUTH.
func (c *connection) chunk(command string) ([]byte, error) {
	n, err := c.stream.length()
	if err != nil {
		return nil, refuse("E_BAD_BODY", "%s failed to read body size", command)
	}
	if most := c.broker.engine.options.MaxBodySize; int64(n) > most {
		return nil, refuse("E_BAD_BODY", "%s body too big %d > %d", command, n, most)
	}
	if n <= 0 {
		return nil, refuse("E_BAD_BODY", "%s invalid body size %d", command, n)
	}
	body, err := c.stream.body(int(n))
	if err != nil {
		return nil, refuse("E_BAD_BODY", "%s failed to read body", command)
	}
	return body, nil
}

// identify does IDENTIFY.
func (c *connection) identify() error {
	body, err := c.chunk("IDENTIFY")
	if err != nil {
		return err
	}
	var said identity
	if json.Unmarshal(body, &said) != nil {
		return refuse("E_BAD_BODY", "IDENTIFY failed to decode JSON body")
	}
	if err := c.accept(said); err != nil {
		return refuse("E_BAD_BODY", "IDENTIFY %v", err)
	}
	if !said.FeatureNegotiation {
		c.frame(frameResponse, ok)
		return nil
	}
	o := c.broker.engine.options
	answer := agreed{
		MaxRdyCount: o.MaxRdyCount, Version: c.broker.engine.version,
		MaxMsgTimeout: o.MaxMsgTimeout.Milliseconds(), MsgTimeout: o.MsgTimeout.Milliseconds(),
		TLSv1:        c.broker.tls != nil && said.TLSv1 && c.stream.tls == nil,
		DeflateLevel: min(6, o.MaxDeflateLevel), MaxDeflateLevel: o.MaxDeflateLevel,
		SampleRate: said.SampleRate, AuthRequired: len(c.broker.settings.Load().Auth) > 0,
		OutputBufferSize: 16 << 10, OutputBufferTimeout: o.OutputBufferTimeout.Milliseconds(),
	}
	if c.stream.packed == nil {
		answer.Snappy, answer.Deflate = said.Snappy, said.Deflate
	}
	if answer.Snappy && answer.Deflate {
		return refuse("E_IDENTIFY_FAILED", "cannot enable both deflate and snappy compression")
	}
	if answer.Deflate && said.DeflateLevel > 0 {
		answer.DeflateLevel = min(said.DeflateLevel, o.MaxDeflateLevel)
	}
	if said.MsgTimeout > 0 {
		answer.MsgTimeout = int64(said.MsgTimeout)
	}
	// What it would have had of nsqd. In fact every message goes out at once.
	if said.OutputBufferTimeout != 0 {
		answer.OutputBufferTimeout = int64(max(said.OutputBufferTimeout, 0))
	}
	if said.OutputBufferSize > 0 {
		answer.OutputBufferSize = said.OutputBufferSize
	} else if said.OutputBufferSize < 0 {
		answer.OutputBufferSize, answer.OutputBufferTimeout = 1, 0
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return refuse("E_IDENTIFY_FAILED", "IDENTIFY failed %v", err)
	}
	c.frame(frameResponse, text)
	if err := c.flush(); err != nil {
		return err
	}
	if answer.TLSv1 {
		if err := c.startTLS(); err != nil {
			return err
		}
	}
	switch {
	case answer.Snappy:
		return c.pack(0)
	case answer.Deflate:
		return c.pack(answer.DeflateLevel)
	}
	return nil
}

// accept checks what the client said, by nsqd's rules, and keeps it.
func (c *connection) accept(said identity) error {
	o := c.broker.engine.options
	between := func(value int, least, most time.Duration) bool {
		return value >= int(least/time.Millisecond) && value <= int(most/time.Millisecond)
	}
	c.identity, c.follows = said, strings.HasPrefix(said.UserAgent, "giusto/")
	switch {
	case said.HeartbeatInterval == -1:
		c.heartbeat.Store(0)
	case said.HeartbeatInterval == 0:
	case between(said.HeartbeatInterval, time.Second, o.MaxHeartbeatInterval):
		c.heartbeat.Store(int64(time.Duration(said.HeartbeatInterval) * time.Millisecond))
		c.pulse.Reset(c.interval())
	default:
		return fmt.Errorf("heartbeat interval (%d) is invalid", said.HeartbeatInterval)
	}
	if t := said.OutputBufferTimeout; t != -1 && t != 0 && !between(t, o.MinOutputBufferTimeout, o.MaxOutputBufferTimeout) {
		return fmt.Errorf("output buffer timeout (%d) is invalid", t)
	}
	if n := said.OutputBufferSize; n != -1 && n != 0 && (n < 64 || n > int(o.MaxOutputBufferSize)) {
		return fmt.Errorf("output buffer size (%d) is invalid", n)
	}
	if said.SampleRate < 0 || said.SampleRate > 99 {
		return fmt.Errorf("sample rate (%d) is invalid", said.SampleRate)
	}
	if t := said.MsgTimeout; t != 0 && !between(t, time.Second, o.MaxMsgTimeout) {
		return fmt.Errorf("msg timeout (%d) is invalid", t)
	}
	return nil
}

// startTLS turns the connection to TLS. Stamps are then those of a record's last byte.
func (c *connection) startTLS() error {
	// What came before the handshake in the same read belongs to it.
	early := &early{stampedConn: c.conn, data: append([]byte(nil), c.stream.data...)}
	c.stream.drop()
	session := tls.Server(early, c.broker.tls)
	session.SetDeadline(time.Now().Add(5 * time.Second))
	if err := session.Handshake(); err != nil {
		return refuse("E_IDENTIFY_FAILED", "IDENTIFY failed %v", err)
	}
	session.SetDeadline(time.Time{})
	c.fresh = true
	c.stream.tls = session
	c.writing.Lock()
	c.writer = session
	c.writing.Unlock()
	c.frame(frameResponse, ok)
	return c.flush()
}

// early is a connection of which some bytes were read already.
type early struct {
	*stampedConn
	data []byte
}

func (e *early) Read(p []byte) (int, error) {
	if len(e.data) > 0 {
		n := copy(p, e.data)
		e.data = e.data[n:]
		return n, nil
	}
	return e.stampedConn.Read(p)
}

// tlsConfig is what the file's tls says.
func tlsConfig(t *settings.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if t.ClientCA != "" {
		text, err := os.ReadFile(t.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("tls: client_ca: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("tls: client_ca: it has no certificate")
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if t.ClientAuth == settings.Require {
		config.ClientAuth = tls.RequireAnyClientCert
	}
	return config, nil
}

// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// rights is what an auth server grants, as nsqd's protocol with these servers has it.
type rights struct {
	TTL            int    `json:"ttl"`
	Identity       string `json:"identity"`
	IdentityURL    string `json:"identity_url"`
	Authorizations []struct {
		Topic       string   `json:"topic"`
		Channels    []string `json:"channels"`
		Permissions []string `json:"permissions"`
		topic       *regexp.Regexp
		channels    []*regexp.Regexp
	} `json:"authorizations"`
	until time.Time
}

// auth does AUTH.
func (c *connection) auth() error {
	if len(c.params) != 1 {
		return refuse("E_INVALID", "AUTH invalid number of parameters")
	}
	secret, err := c.chunk("AUTH")
	switch {
	case err != nil:
		return err
	case c.rights != nil && len(c.rights.Authorizations) > 0:
		return refuse("E_INVALID", "AUTH already set")
	case len(c.broker.settings.Load().Auth) == 0:
		return refuse("E_AUTH_DISABLED", "AUTH disabled")
	}
	c.secret = secret
	if err := c.ask(); err != nil {
		c.broker.log("%v: AUTH failed: %v", c.conn.RemoteAddr(), err)
		return refuse("E_AUTH_FAILED", "AUTH failed")
	}
	if len(c.rights.Authorizations) == 0 {
		return refuse("E_UNAUTHORIZED", "AUTH no authorizations found")
	}
	text, err := json.Marshal(struct {
		Identity        string `json:"identity"`
		IdentityURL     string `json:"identity_url"`
		PermissionCount int    `json:"permission_count"`
	}{c.rights.Identity, c.rights.IdentityURL, len(c.rights.Authorizations)})
	if err != nil {
		return refuse("E_AUTH_ERROR", "AUTH error %v", err)
	}
	c.frame(frameResponse, text)
	return nil
}

// authorized says whether the client may publish to a topic, or subscribe to a channel of it.
func (c *connection) authorized(command, topic, channel string) error {
	if len(c.broker.settings.Load().Auth) == 0 {
		return nil
	}
	if c.rights == nil || len(c.rights.Authorizations) == 0 {
		return refuse("E_AUTH_FIRST", "AUTH required before %s", command)
	}
	if time.Now().After(c.rights.until) {
		if err := c.ask(); err != nil {
			c.broker.log("%v: AUTH failed: %v", c.conn.RemoteAddr(), err)
			return refuse("E_AUTH_FAILED", "AUTH failed")
		}
	}
	if channel == "" && c.allowed[topic] {
		return nil
	}
	if !c.rights.allow(topic, channel) {
		return refuse("E_UNAUTHORIZED", "AUTH failed for %s on %q %q", command, topic, channel)
	}
	if channel == "" && len(c.allowed) < 100 {
		c.allowed[topic] = true
	}
	return nil
}

func (r *rights) allow(topic, channel string) bool {
	permission := "publish"
	if channel != "" {
		permission = "subscribe"
	}
	for _, a := range r.Authorizations {
		if !slices.Contains(a.Permissions, permission) || !a.topic.MatchString(topic) {
			continue
		}
		for _, allowed := range a.channels {
			if allowed.MatchString(channel) {
				return true
			}
		}
	}
	return false
}

// ask asks the auth servers, starting with any, until one answers.
func (c *connection) ask() error {
	servers := c.broker.settings.Load().Auth
	question := url.Values{}
	host, _, _ := net.SplitHostPort(c.conn.RemoteAddr().String())
	question.Set("remote_ip", host)
	question.Set("tls", fmt.Sprint(c.stream.tls != nil))
	question.Set("secret", string(c.secret))
	question.Set("common_name", "")
	if c.stream.tls != nil {
		if shown := c.stream.tls.ConnectionState().PeerCertificates; len(shown) > 0 {
			question.Set("common_name", shown[0].Subject.CommonName)
		}
	}
	first := rand.IntN(len(servers))
	var failed error
	for n := range servers {
		server := servers[(first+n)%len(servers)]
		if !strings.Contains(server, "://") {
			server = "http://" + server + "/auth"
		}
		r, err := inquire(c.broker.asking, server+"?"+question.Encode())
		if err == nil {
			c.rights, c.allowed = r, map[string]bool{}
			return nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", server, err))
	}
	return failed
}

func inquire(client *http.Client, address string) (*rights, error) {
	request, err := http.NewRequest("GET", address, nil)
	if err != nil {
		return nil, errors.New("not an address")
	}
	request.Header.Set("Accept", "application/vnd.nsq; version=1.0")
	response, err := client.Do(request)
	if err != nil {
		return nil, errors.Unwrap(err) // without the address, which has the secret in it
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != 200 {
		return nil, fmt.Errorf("it answered %s", response.Status)
	}
	r := &rights{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	for n := range r.Authorizations {
		a := &r.Authorizations[n]
		for _, permission := range a.Permissions {
			if permission != "subscribe" && permission != "publish" {
				return nil, fmt.Errorf("unknown permission %s", permission)
			}
		}
		if a.topic, err = regexp.Compile(a.Topic); err != nil {
			return nil, err
		}
		for _, channel := range a.Channels {
			compiled, err := regexp.Compile(channel)
			if err != nil {
				return nil, err
			}
			a.channels = append(a.channels, compiled)
		}
	}
	if r.TTL <= 0 {
		return nil, fmt.Errorf("invalid TTL %d (must be >0)", r.TTL)
	}
	r.until = time.Now().Add(time.Duration(r.TTL) * time.Second)
	return r, nil
}

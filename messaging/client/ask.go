// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"giusto.dev/messaging/wire"
)

// asker asks distributors, in turns until one answers. Who does not lead sends it on.
type asker struct {
	distributors []string
	next         *int
	http         *http.Client
}

func newAsker(distributors []string) asker {
	return asker{distributors, new(int), &http.Client{}}
}

// errNews ends a question because the link was lost.
var errNews = errors.New("the broker was lost")

// slack is how much longer than it may wait an answer may take.
const slack = 3 * time.Second

func (a asker) ask(ctx context.Context, news <-chan struct{}, ask wire.Ask) (told wire.Assignment, err error) {
	ctx, cancel := context.WithTimeout(ctx, ask.Wait+slack)
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		told, err = a.get(ctx, ask)
	}()
	if ask.Wait == 0 {
		news = nil
	}
	select {
	case <-answered:
	case <-news:
		cancel()
		<-answered
		err = errNews
	}
	return told, err
}

func (a asker) get(ctx context.Context, ask wire.Ask) (told wire.Assignment, err error) {
	server := a.distributors[*a.next%len(a.distributors)]
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server+"/assign?"+ask.Query().Encode(), nil)
	if err != nil {
		return told, err
	}
	response, err := a.http.Do(request)
	if err != nil {
		*a.next++
		return told, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		*a.next++
		text, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return told, fmt.Errorf("%s: %s: %s", server, response.Status, strings.TrimSpace(string(text)))
	}
	return told, json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&told)
}

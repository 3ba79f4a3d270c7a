package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/internal/apiv1"
)

// client talks to one controller.
type client struct {
	base   *url.URL
	token  string
	source string          // where the address was found
	pauses []time.Duration // before each repetition of a request
	http   http.Client

	beside  string // socket of the same controller for root on its host; "" if it is none of this host
	control string // the same, if the token is the one that belongs to it
	say     func(format string, args ...any)
	told    bool // that the controller is busy
}

// problemError is an error that the API told.
type problemError struct {
	apiv1.Problem
	after time.Duration // when to try again; 0: it did not say
}

// busy says that the controller has not done anything, as a limit is reached, and when to try again.
func busy(err error) (after time.Duration, yes bool) {
	var told *problemError
	if !errors.As(err, &told) || told.Status != http.StatusTooManyRequests && told.Status != http.StatusServiceUnavailable || told.after == 0 {
		return 0, false
	}
	return min(told.after, longestPause), true
}

// How often and how long a busy controller is waited for.
const (
	mostPauses   = 8
	longestPause = 10 * time.Second
)

// wait waits for a busy controller, and says so once.
func (c *client) wait(ctx context.Context, why error, after time.Duration) {
	if !c.told && c.say != nil {
		c.say("the controller is busy: %v; trying again", why)
	}
	c.told = true
	select {
	case <-ctx.Done():
	case <-time.After(after):
	}
}

// call is one request.
type call struct {
	method string
	path   string // below the base, escaped
	query  url.Values
	kind   string // Content-Type
	body   []byte
	key    string // Idempotency-Key
	after  string // Last-Event-ID: the call is for the stream of later events
	file   string // name of the file in body, for what is wrong with it
}

// headers are those that are particular to the call.
func (r call) headers(h http.Header) {
	h.Set("Accept", "application/json, application/problem+json")
	if r.after != "" {
		h.Set("Accept", "text/event-stream, application/problem+json")
	}
	for name, value := range map[string]string{"Content-Type": r.kind, "Idempotency-Key": r.key, "Last-Event-ID": r.after} {
		if value != "" {
			h.Set(name, value)
		}
	}
}

func get(path string, query url.Values) call {
	return call{method: http.MethodGet, path: path, query: query}
}

// change is a call that may be repeated, as it carries a key of its own.
func change(method, path string, body any) call {
	c := call{method: method, path: path, key: rand.Text()}
	if body != nil {
		c.kind, c.body = "application/json", must(json.Marshal(body))
	}
	return c
}

// must is for values that always marshal.
func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

func clusterPath(ref string, below ...string) string {
	return "/v1/clusters/" + strings.Join(append([]string{url.PathEscape(ref)}, below...), "/")
}

func machinePath(name string, below ...string) string {
	return "/v1/machines/" + strings.Join(append([]string{url.PathEscape(name)}, below...), "/")
}

// do makes the call, reads the answer into answer unless that is nil, and returns it as it came. It repeats what was never
// received, and what may be done twice when the answer was lost or the controller is in trouble.
func (c *client) do(ctx context.Context, r call, answer any) ([]byte, error) {
	waited := 0
	for attempt := 0; ; attempt++ {
		text, err := c.once(ctx, r)
		if err == nil {
			if answer == nil {
				return text, nil
			}
			if err := json.Unmarshal(text, answer); err != nil {
				return nil, fmt.Errorf("the answer of %s to %s %s makes no sense: %w", c.base.Host, r.method, r.path, err)
			}
			return text, nil
		}
		if after, yes := busy(err); yes && c.pauses != nil && waited < mostPauses && ctx.Err() == nil {
			c.wait(ctx, err, after)
			waited++
			attempt--
			continue
		}
		if attempt == len(c.pauses) || !repeatable(r, err) || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(c.pauses[attempt]):
		}
	}
}

func repeatable(r call, err error) bool {
	var told *problemError
	if errors.As(err, &told) && told.Status < 500 {
		return false
	}
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return true
	}
	return r.key != "" || r.method != http.MethodPost
}

func (c *client) once(ctx context.Context, r call) ([]byte, error) {
	response, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, c.lost(err)
	}
	return text, nil
}

// open makes the call and returns the answer if it is a good one; the caller closes its body.
func (c *client) open(ctx context.Context, r call) (*http.Response, error) {
	target := c.base.String() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	request.Header.Set("User-Agent", "muster/"+Version())
	r.headers(request.Header)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.lost(err)
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	return nil, c.problem(response, r.file)
}

// lost says why there was no answer.
func (c *client) lost(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", context.Canceled)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("the controller is not running: nothing listens at %s, the address in %s: %w", c.base, c.source, bare(err))
	}
	return fmt.Errorf("no answer from %s, the address in %s: %w", c.base, c.source, bare(err))
}

// bare is an error of net/http without the method and URL around it.
func bare(err error) error {
	var around *url.Error
	if errors.As(err, &around) {
		return around.Err
	}
	return err
}

// problem reads what the API says is wrong. Another program's answer at the same address is told by its status.
func (c *client) problem(response *http.Response, file string) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	p := &problemError{}
	if err := json.Unmarshal(text, &p.Problem); err != nil || p.Code == "" {
		p.Problem = apiv1.Problem{Title: response.Status, Status: response.StatusCode, Detail: fmt.Sprintf("%s answered %s", c.base, response.Status)}
		if response.StatusCode < 500 {
			p.Detail += "; is it a Muster controller?"
		}
	}
	p.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.after = time.Duration(seconds) * time.Second
	}
	for i := range p.Errors {
		d := &p.Errors[i]
		switch {
		case file == "":
			d.Line, d.Col = 0, 0 // a place in a text that the user never saw
		case d.Line > 0:
			d.File = file
		}
	}
	return p
}

// page is one page of any list.
type page struct {
	Items []json.RawMessage `json:"items"`
	Next  string            `json:"next,omitempty"`
}

// all reads every page of a list, into items and as one object. Pages of events are told apart by their own parameter.
func all[T any](ctx context.Context, c *client, path, cursor string, query url.Values) (items []T, raw []byte, err error) {
	whole := page{Items: []json.RawMessage{}}
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(1000))
	for {
		var p page
		if _, err := c.do(ctx, get(path, query), &p); err != nil {
			return nil, nil, err
		}
		for _, text := range p.Items {
			var item T
			if err := json.Unmarshal(text, &item); err != nil {
				return nil, nil, fmt.Errorf("the answer to GET %s makes no sense: %w", path, err)
			}
			items, whole.Items = append(items, item), append(whole.Items, text)
		}
		if p.Next == "" {
			return items, must(json.Marshal(whole)), nil
		}
		query.Set(cursor, p.Next)
	}
}

// cursor is the parameter that asks for a list's next page; events have after.
const cursor = "cursor"

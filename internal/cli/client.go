package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/kit/clock"
)

// Do makes the app an apiv1.Client. The first request finds the controller.
func (a *app) Do(ctx context.Context, ask apiv1.Ask) ([]byte, error) {
	controller, err := a.connect()
	if err != nil {
		return nil, err
	}
	return controller.Do(ctx, ask)
}

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
	if !errors.As(err, &told) || told.Status != http.StatusTooManyRequests && told.Status != http.StatusServiceUnavailable ||
		told.after == 0 {
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
	_ = clock.Sleep(ctx, after)
}

// must is for values that always marshal.
func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// Do asks for an operation and returns the answer as it came. It repeats what was never received, and what may be done twice
// when the answer was lost or the controller is in trouble.
func (c *client) Do(ctx context.Context, ask apiv1.Ask) ([]byte, error) {
	if op := ask.Operation; op.Method != http.MethodGet && !op.Once {
		ask.Header.Set("Idempotency-Key", rand.Text())
	}
	waited := 0
	for attempt := 0; ; attempt++ {
		text, err := c.once(ctx, ask)
		if err == nil {
			return text, nil
		}
		if after, yes := busy(err); yes && c.pauses != nil && waited < mostPauses && ctx.Err() == nil {
			c.wait(ctx, err, after)
			waited++
			attempt--
			continue
		}
		if attempt == len(c.pauses) || !repeatable(ask.Operation, err) || ctx.Err() != nil {
			return nil, err
		}
		if clock.Sleep(ctx, c.pauses[attempt]) != nil {
			return nil, err
		}
	}
}

func repeatable(op apiv1.Endpoint, err error) bool {
	if told, is := errors.AsType[*problemError](err); is && told.Status < 500 {
		return false
	}
	if network, is := errors.AsType[*net.OpError](err); is && network.Op == "dial" {
		return true
	}
	return !op.Once
}

func (c *client) once(ctx context.Context, ask apiv1.Ask) ([]byte, error) {
	response, err := c.open(ctx, ask)
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

// open asks and returns the answer if it is a good one; the caller closes its body.
func (c *client) open(ctx context.Context, ask apiv1.Ask) (*http.Response, error) {
	request, err := ask.Request(ctx, c.base.String(), c.token)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "muster/"+Version())
	request.Header.Set("Accept", "application/json, application/problem+json")
	if ask.Query.Has("watch") {
		request.Header.Set("Accept", "text/event-stream, application/problem+json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.lost(err)
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	return nil, c.problem(response)
}

// lost says why there was no answer.
func (c *client) lost(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", context.Canceled)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("the controller is not running: nothing listens at %s, the address in %s: %w", c.base, c.source,
			bare(err))
	}
	return fmt.Errorf("no answer from %s, the address in %s: %w", c.base, c.source, bare(err))
}

// bare is an error of net/http without the method and URL around it.
func bare(err error) error {
	if around, is := errors.AsType[*url.Error](err); is {
		return around.Err
	}
	return err
}

// problem reads what the API says is wrong. Another program's answer at the same address is told by its status.
func (c *client) problem(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	p := &problemError{Problem: *apiv1.ReadProblem(c.base.String(), response, text)}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.after = time.Duration(seconds) * time.Second
	}
	for i := range p.Errors {
		p.Errors[i].File = "" // which the controller cannot know
	}
	return p
}

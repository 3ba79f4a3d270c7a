package firststage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// server is the boot services, as this machine sees them.
type server struct {
	base    *url.URL
	mac     net.HardwareAddr
	token   string
	started time.Time // of the kernel
	http    *http.Client
	console console
	pause   func(ctx context.Context, d time.Duration) error
	// signs is how often the controller hears how far a transfer is; 0: never.
	signs time.Duration
	// patience is how long something is tried that gets no further; 0: as long as it takes.
	patience time.Duration
	// nothingFor is how long the answer "nothing to boot" is asked again: a controller may be late.
	nothingFor time.Duration
}

const (
	answerWait = 10 * time.Second // for a server to begin its answer
	silence    = 20 * time.Second // that ends a transfer which stands still
	pauseFirst = 250 * time.Millisecond
	pauseMost  = 5 * time.Second
	sayEvery   = 10 * time.Second
	planLimit  = 1 << 20 // bytes
)

func newServer(a arguments, c console) *server {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	s := &server{
		base: a.server, mac: a.mac, token: a.token, started: kernelStart(), console: c, pause: clock.Sleep,
		nothingFor: time.Minute,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dialer.DialContext(ctx, network, address)
					if err != nil {
						return nil, err
					}
					return pacedConn{conn}, nil
				},
				DisableCompression: true, ResponseHeaderTimeout: answerWait, ReadBufferSize: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if s.token != "" {
		s.signs = sayEvery
	}
	return s
}

// pacedConn fails a read that brings nothing for too long, however long the whole transfer takes.
type pacedConn struct{ net.Conn }

func (c pacedConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// final marks an error that no waiting mends.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// again repeats try with growing pauses until it succeeds, or fails for good. try returns whether it got any further; then
// the pauses begin again.
func (s *server) again(ctx context.Context, what string, try func() (further bool, err error)) error {
	wait := pauseFirst
	news := often{every: sayEvery}
	moved := time.Now()
	for {
		further, err := try()
		if err == nil {
			return nil
		}
		if f, is := errors.AsType[final](err); is {
			return fmt.Errorf("%s: %w", what, f.error)
		}
		if further {
			wait, moved = pauseFirst, time.Now()
		}
		if s.patience > 0 && time.Since(moved) > s.patience {
			return fmt.Errorf("%s: %w", what, err)
		}
		if news.now() {
			s.console.say("%s: %v; trying again", what, err)
		}
		if err := s.pause(ctx, wait); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		wait = min(wait*2, pauseMost)
	}
}

// ask sends a request. What is wrong with the request itself is final.
func (s *server) ask(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.base.String(), "/")+path, body)
	if err != nil {
		return nil, final{err}
	}
	maps.Copy(request.Header, header)
	return s.http.Do(request)
}

// plan asks what this machine is to become.
func (s *server) plan(ctx context.Context) (protocol.Plan, error) {
	var plan protocol.Plan
	var nothing time.Time // since when the answer is that there is nothing
	err := s.again(ctx, "plan", func() (bool, error) {
		within, cancel := context.WithTimeout(ctx, 2*answerWait)
		defer cancel()
		response, err := s.ask(within, http.MethodGet, protocol.PlanPath+"?mac="+url.QueryEscape(s.mac.String()), nil, nil)
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusNotFound {
			if nothing.IsZero() {
				nothing = time.Now()
			}
			err := fmt.Errorf("the controller has nothing for this machine to boot (%s)", answer(response))
			if time.Since(nothing) > s.nothingFor {
				return false, final{err}
			}
			return false, err
		}
		nothing = time.Time{}
		if response.StatusCode != http.StatusOK {
			return false, fmt.Errorf("the controller answers %s", answer(response))
		}
		text, err := io.ReadAll(io.LimitReader(response.Body, planLimit+1))
		if err != nil {
			return false, err
		}
		if plan, err = parsePlan(text); err != nil {
			return false, final{err}
		}
		return true, nil
	})
	return plan, err
}

// answer is what a refusal says, cut short and fit for a console.
func answer(r *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(r.Body, 300))
	return strings.TrimSpace(r.Status + ": " + strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return ' '
		}
		return c
	}, string(text)))
}

// Bounds of a plan. A root is held in memory, or on a disk.
const (
	rootLimit  = 1 << 40
	agentLimit = 1 << 30
)

// parsePlan refuses a plan that could make this machine write where it should not.
func parsePlan(text []byte) (protocol.Plan, error) {
	var plan protocol.Plan
	if len(text) > planLimit {
		return plan, fmt.Errorf("it has more than %d bytes", planLimit)
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return plan, err
	}
	if err := checkBlob(plan.Root, rootLimit); err != nil {
		return plan, fmt.Errorf("root: %w", err)
	}
	if err := checkBlob(plan.Agent, agentLimit); err != nil {
		return plan, fmt.Errorf("agent: %w", err)
	}
	if plan.Disk && plan.Keep == "" {
		return plan, errors.New("it wants a root on disk and does not say whose")
	}
	if len(plan.Keep) > 200 {
		return plan, errors.New("keep: the name has more than 200 bytes")
	}
	return plan, nil
}

func checkBlob(b protocol.Blob, limit int64) error {
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(b.Digest) {
		return fmt.Errorf("digest %.80q is not sha256: and 64 hex digits", b.Digest)
	}
	if b.Size <= 0 || b.Size > limit {
		return fmt.Errorf("size %d is not between 1 and %d bytes", b.Size, limit)
	}
	return nil
}

// progress tells the controller how far this boot is. It is worth a few seconds, and no boot fails for it.
func (s *server) progress(ctx context.Context, step protocol.BootStep, detail string) {
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.post(within, step, detail); err != nil {
		s.console.say("the controller was not told of step %s: %v", step, err)
	}
}

func (s *server) post(ctx context.Context, step protocol.BootStep, detail string) error {
	text, err := json.Marshal(protocol.BootProgress{MAC: s.mac.String(), Step: step, Detail: detail[:min(len(detail), 500)],
		Took: time.Since(s.started)})
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if s.token != "" {
		proof := sha256.Sum256([]byte(s.token))
		header.Set("Authorization", "Boot "+hex.EncodeToString(proof[:]))
	}
	response, err := s.ask(ctx, http.MethodPost, protocol.ProgressPath, header, bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return errors.New(answer(response))
	}
	return nil
}

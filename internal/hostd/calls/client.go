package calls

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
)

// Agent is the agent of a host as a controller calls it. Its methods, and those of its substrates, may be called at the same
// time. Where the host is not reached, they fail and nothing is known of what it did: call again.
type Agent struct {
	host    string
	connect func(context.Context) (net.Conn, error)
	http    *http.Client
}

// idle is how long a connection is kept for the next call.
const idle = time.Minute

// NewAgent calls the host of that name, over connections that connect opens, or hands out.
func NewAgent(host string, connect func(context.Context) (net.Conn, error)) *Agent {
	const most = 256 // as many as an engine has handlers
	return &Agent{host, connect, &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
		MaxIdleConnsPerHost: most,
		IdleConnTimeout:     idle,
		DisableCompression:  true,
	}}}
}

// Close lets go of the connections that wait for the next call.
func (a *Agent) Close() { a.http.CloseIdleConnections() }

// Host is the substrate of that name that makes what nodes of a cluster share.
func (a *Agent) Host(substrate string) *Client { return &Client{nodes{a, substrate}} }

// nodes is one substrate of a host. It implements Nodes.
type nodes struct {
	*Agent
	substrate string // "": what is called is the agent itself
}

// Client is a Host.
type Client struct{ nodes }

var _ Host = (*Client)(nil)

// of makes a call.
func (name call[In, Out]) of(ctx context.Context, c nodes, in In) (out Out, err error) {
	request, err := name.request(ctx, c, in)
	if err != nil {
		return out, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return out, c.unreached(ctx, err)
	}
	defer response.Body.Close()
	return name.result(c, response)
}

// tell makes a call whose answer tells nothing.
func tell[In any](ctx context.Context, name call[In, none], c nodes, in In) error {
	_, err := name.of(ctx, c, in)
	return err
}

func (name call[In, Out]) request(ctx context.Context, c nodes, in In) (*http.Request, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host"+name.path(c.substrate), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header["Idempotency-Key"] = nil // that net/http repeats it over another connection if the host has closed this one
	return request, nil
}

func (name call[In, Out]) result(c nodes, response *http.Response) (out Out, err error) {
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return out, fmt.Errorf("host %s does not answer %q: %s: %s", c.host, string(name), response.Status,
			strings.TrimSpace(string(text)))
	}
	var r reply[Out]
	if err := json.NewDecoder(response.Body).Decode(&r); err != nil {
		return out, fmt.Errorf("host %s answers %q with what cannot be read: %w", c.host, string(name), err)
	}
	return r.result()
}

func (a *Agent) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("host %s is not reached: %w", a.host, err)
}

// takeOver makes a call and takes its connection over.
func (name call[In, Out]) takeOver(ctx context.Context, c nodes, in In) (*stream, error) {
	request, err := name.request(ctx, c, in)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "muster")
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	early := bufio.NewReader(conn)
	err = request.Write(conn)
	var response *http.Response
	if err == nil {
		response, err = http.ReadResponse(early, request)
	}
	switch {
	case !stop() || err != nil:
		err = c.unreached(ctx, err)
	case response.StatusCode == http.StatusSwitchingProtocols:
		return &stream{conn, early}, nil
	default:
		if _, err = name.result(c, response); err == nil {
			err = fmt.Errorf("host %s does not give its connection for %q", c.host, string(name))
		}
	}
	_ = conn.Close()
	return nil, err
}

// Ensure is substrate.Substrate's; so are Observe, Remove and List.
func (c nodes) Ensure(ctx context.Context, n substrate.Node) error {
	return tell(ctx, ensure, c, n)
}

func (c nodes) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	return observe.of(ctx, c, r)
}

func (c nodes) Remove(ctx context.Context, r substrate.Ref) error {
	return tell(ctx, remove, c, r)
}

func (c nodes) List(ctx context.Context) ([]substrate.Ref, error) { return list.of(ctx, c, none{}) }

// Inspect is substrate.Inspector's, as is EnsureOff.
func (c nodes) Inspect(ctx context.Context, i substrate.Inspection) (substrate.Inspected, error) {
	return inspect.of(ctx, c, i)
}

func (c nodes) EnsureOff(ctx context.Context, m inventory.Machine) (string, error) {
	return rest.of(ctx, c, m)
}

// EnsureShared is substrate.Shared's; so are GrowHome, RemoveShared, ListShared and Dial.
func (c *Client) EnsureShared(ctx context.Context, cluster string, n substrate.Network) error {
	return tell(ctx, ensureShared, c.nodes, sharedIn{cluster, n})
}

func (c *Client) GrowHome(ctx context.Context, cluster string, bytes int64) error {
	return tell(ctx, growHome, c.nodes, bytesIn{cluster, bytes})
}

func (c *Client) RemoveShared(ctx context.Context, cluster string) error {
	return tell(ctx, removeShared, c.nodes, cluster)
}

func (c *Client) ListShared(ctx context.Context) ([]string, error) {
	return listShared.of(ctx, c.nodes, none{})
}

func (c *Client) Dial(ctx context.Context, cluster string, to netip.AddrPort) (net.Conn, error) {
	conn, err := dial.takeOver(ctx, c.nodes, dialIn{cluster, to})
	if err != nil {
		return nil, err // not a nil of another type
	}
	return conn, nil
}

// Size is substrate.Snapshots's; so are Save, Restore, Drop and Snapshots.
func (c *Client) Size(ctx context.Context, cluster string) (int64, error) {
	return size.of(ctx, c.nodes, cluster)
}

func (c *Client) Save(ctx context.Context, cluster, snapshot string, progress func(int64) error) (substrate.Saved, error) {
	return save.follow(ctx, c.nodes, copyIn{cluster, snapshot}, progress)
}

func (c *Client) Restore(ctx context.Context, snapshot, cluster string, home int64, progress func(int64) error) error {
	_, err := restore.follow(ctx, c.nodes, restoreIn{copyIn{cluster, snapshot}, home}, progress)
	return err
}

func (c *Client) Drop(ctx context.Context, snapshot string) error {
	return tell(ctx, drop, c.nodes, snapshot)
}

func (c *Client) Snapshots(ctx context.Context) ([]string, error) {
	return snapshots.of(ctx, c.nodes, none{})
}

// follow makes a copy and hears how far it is. It returns when the host has ended it, also one that progress has called off.
func (name call[In, Out]) follow(ctx context.Context, c nodes, in In, progress func(int64) error) (out Out, err error) {
	conn, err := name.takeOver(ctx, c, in)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	tell, hear := json.NewEncoder(conn), json.NewDecoder(conn)
	var off error
	for {
		var s step[Out]
		if err := hear.Decode(&s); err != nil {
			return out, errors.Join(off, c.unreached(ctx, err))
		}
		if s.Reply != nil {
			out, err = s.Reply.result()
			if off != nil {
				err = off
			}
			return out, err
		}
		if off == nil {
			off = progress(s.Copied)
		}
		if err := tell.Encode(goOn{Stop: off != nil}); err != nil {
			return out, errors.Join(off, c.unreached(ctx, err))
		}
	}
}

// lookWithin bounds looks at a disk: answers can do without them, and a transaction may be waiting.
const lookWithin = time.Second

// Introduce is Host's; so are HomeUsage, Room, OwnUsers and Listen.
func (c *Client) Introduce(ctx context.Context, cluster string, address netip.Addr) error {
	return tell(ctx, introduce, c.nodes, addrIn{cluster, address})
}

// Endpoints is substrate.Caller's.
func (c *Client) Endpoints(ctx context.Context) ([]string, error) {
	return endpoints.of(ctx, c.nodes, none{})
}

func (c *Client) HomeUsage(ctx context.Context, cluster string) (size, used int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	out, err := homeUsage.of(ctx, c.nodes, cluster)
	return out.Size, out.Used, err
}

func (c *Client) Room(ctx context.Context) (left int64, full string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	out, err := room.of(ctx, c.nodes, none{})
	return out.Left, out.Full, err
}

func (c *Client) OwnUsers(ctx context.Context) (own bool, why string, err error) {
	out, err := ownUsers.of(ctx, c.nodes, none{})
	return out.Own, out.Why, err
}

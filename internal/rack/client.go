package rack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Errors to be told apart with errors.Is.
var (
	ErrNoRack    = errors.New("there is no rack")
	ErrNoMachine = errors.New("there is no such machine in the rack")
	ErrConflict  = errors.New("not with what is there")
)

// conflict is an ErrConflict that says which.
type conflict string

func (c conflict) Error() string { return string(c) }

func (conflict) Is(target error) bool { return target == ErrConflict }

// State is a rack and its machines as they are now.
type State struct {
	Dir      string   `json:"dir"`
	PID      int      `json:"pid"`   // of the rack's process
	Accel    string   `json:"accel"` // kvm or tcg
	Shape    Shape    `json:"shape"`
	Machines []Status `json:"machines"`
}

// Status is a machine and the state it is in.
type Status struct {
	Machine
	State   string     `json:"state"` // on or off
	Control string     `json:"control"`
	Faults  []string   `json:"faults"`
	Since   *time.Time `json:"on_since,omitempty"`
}

// What may be done to a machine by Do, as the command line calls it.
const (
	On      = "on"
	Off     = "off"
	Kill    = "kill"     // loses its power, and gets it again when it is switched on
	Hang    = "hang"     // its CPUs stop; a reset or a loss of power ends that
	NoPower = "no-power" // switching it on has no effect, whatever the BMC says
	NoDHCP  = "no-dhcp"  // its packets to and from DHCP servers get lost
	Unplug  = "unplug"   // its network cable is out: no frame comes or goes
	Slow    = "slow"     // its network carries 256 kbit/s
	Corrupt = "corrupt"  // one byte of what it fetches by HTTP is another
	BadDisk = "bad-disk" // from its next start on, what would change its first disk fails
	Heal    = "heal"     // all faults are taken back
)

// What the rack's process answers at its socket: GET of PathState is a State; POST of PathEnd ends it; POST of PathDo, with
// a machine's name and what to do to it, takes a Request and is the machine's Status. Errors are a Failure.
const (
	PathState = "/rack"
	PathEnd   = "/end"
	PathDo    = "/machines/{name}/{what}"
)

// Request says more about what is done to a machine.
type Request struct {
	After int64 `json:"after,omitempty"` // for Corrupt: the offset of the byte that is flipped
}

// Failure is why the rack's process refuses.
type Failure struct {
	Text string `json:"error"`
}

// Look says how the rack is; ErrNoRack if none runs.
func (f Folder) Look(ctx context.Context) (State, error) {
	var s State
	return s, f.ask(ctx, http.MethodGet, PathState, nil, &s)
}

// Do is done to a machine by hand: On, Off, or a fault. after is for Corrupt: the offset of the byte that is flipped.
func (f Folder) Do(ctx context.Context, name, what string, after int64) (Status, error) {
	var s Status
	path := strings.NewReplacer("{name}", url.PathEscape(name), "{what}", what).Replace(PathDo)
	err := f.ask(ctx, http.MethodPost, path, Request{After: after}, &s)
	if errors.Is(err, ErrNoMachine) {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	return s, err
}

// ask makes one request of the rack's process.
func (f Folder) ask(ctx context.Context, method, path string, body, answer any) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", f.Socket())
	}}
	defer transport.CloseIdleConnections()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://rack"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED),
		errors.Is(err, syscall.ECONNRESET): // it has just ended
		return fmt.Errorf("%w in %s", ErrNoRack, f)
	case err != nil:
		return fmt.Errorf("the rack in %s: %w", f, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return ErrNoMachine
	case response.StatusCode >= 300:
		var refusal Failure
		if err := json.NewDecoder(response.Body).Decode(&refusal); err != nil {
			return fmt.Errorf("the rack in %s answered %s", f, response.Status)
		}
		if response.StatusCode == http.StatusConflict {
			return conflict(refusal.Text)
		}
		return errors.New(refusal.Text)
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("the rack in %s: its answer makes no sense: %w", f, err)
	}
	return nil
}

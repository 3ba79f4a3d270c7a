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
	"path/filepath"
	"syscall"
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

// Look says how the rack in a folder is; ErrNoRack if none runs there.
func Look(ctx context.Context, dir string) (State, error) {
	var s State
	return s, ask(ctx, dir, http.MethodGet, "/rack", nil, &s)
}

// Do is done to a machine by hand: On, Off, or a fault. after is for Corrupt: the offset of the byte that is flipped.
func Do(ctx context.Context, dir, name, what string, after int64) (Status, error) {
	var s Status
	err := ask(ctx, dir, http.MethodPost, "/machines/"+url.PathEscape(name)+"/"+what, request{After: after}, &s)
	if errors.Is(err, ErrNoMachine) {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	return s, err
}

// ask makes one request of the rack's process.
func ask(ctx context.Context, dir, method, path string, body, answer any) error {
	socket := filepath.Join(dir, socketFile)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
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
		return fmt.Errorf("%w in %s", ErrNoRack, dir)
	case err != nil:
		return fmt.Errorf("the rack in %s: %w", dir, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return ErrNoMachine
	case response.StatusCode >= 300:
		var f failure
		if err := json.NewDecoder(response.Body).Decode(&f); err != nil {
			return fmt.Errorf("the rack in %s answered %s", dir, response.Status)
		}
		if response.StatusCode == http.StatusConflict {
			return conflict(f.Text)
		}
		return errors.New(f.Text)
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("the rack in %s: its answer makes no sense: %w", dir, err)
	}
	return nil
}

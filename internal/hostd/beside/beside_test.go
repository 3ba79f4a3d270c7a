package beside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// agentEnv makes the test binary an agent.
const agentEnv = "MUSTER_BESIDE_TEST"

type told struct{ Word string }

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) == "" {
		os.Exit(m.Run())
	}
	var t told
	l, err := Listen(&t)
	if err != nil {
		panic(err)
	}
	if err := l.Ready(nil); err != nil {
		panic(err)
	}
	err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/die" {
			os.Exit(7)
		}
		fmt.Fprintf(w, "%s %d", t.Word, os.Getpid())
	}))
	if !errors.Is(err, net.ErrClosed) {
		panic(err)
	}
	os.Exit(0)
}

// beside is an agent that runs, and the way to call it.
func beside(t *testing.T) (ask func(path string) (word string, pid int, err error), end func()) {
	t.Helper()
	t.Setenv(agentEnv, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a, err := New([]string{self}, told{"hello"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	started, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		a.Run(ctx, func(err error) { started <- err })
	}()
	end = func() { cancel(); <-over }
	t.Cleanup(end)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return a.Connect(ctx) },
	}}
	t.Cleanup(client.CloseIdleConnections)
	return func(path string) (word string, pid int, err error) {
		r, err := client.Get("http://agent" + path)
		if err != nil {
			return "", 0, err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = fmt.Sscanf(string(text), "%s %d", &word, &pid)
		}
		return word, pid, err
	}, end
}

func TestTheAgentIsToldAndAnswersAndEndsWithItsController(t *testing.T) {
	ask, end := beside(t)
	word, pid, err := ask("/")
	if err != nil || word != "hello" || pid == os.Getpid() {
		t.Fatal(word, pid, err)
	}
	for range 20 {
		if _, again, err := ask("/"); err != nil || again != pid {
			t.Fatal(again, err)
		}
	}
	end()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %s is there still: %v", strconv.Itoa(pid), err)
	}
}

func TestAnAgentThatDiesIsStartedAgain(t *testing.T) {
	ask, _ := beside(t)
	_, first, err := ask("/")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask("/die"); err == nil {
		t.Error("it answered on its way out")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		word, pid, err := ask("/")
		if err == nil && word == "hello" && pid != first {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(word, pid, err)
		}
	}
}

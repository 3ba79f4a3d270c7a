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
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/protocol"
)

// machineAt is a machine's view of a server, without pauses. What it says goes to the answered buffer.
func machineAt(t testing.TB, handler http.HandlerFunc) (*server, *bytes.Buffer) {
	t.Helper()
	there := httptest.NewServer(handler)
	t.Cleanup(there.Close)
	args, err := parseArguments("muster.server=" + there.URL + " muster.mac=52:54:00:00:00:01 muster.token=secret")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	s := newServer(args, console{&said})
	s.pause = func(context.Context, time.Duration) error { return nil }
	return s, &said
}

func content(n int) ([]byte, protocol.Blob) {
	c := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(c)
	sum := sha256.Sum256(c)
	return c, protocol.Blob{Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(n)}
}

// from is the first byte that a request asks for.
func from(r *http.Request) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
	return n
}

func TestABlobArrivesWholeWhateverTheServerDoes(t *testing.T) {
	whole, blob := content(5<<20 + 123)
	send := func(w http.ResponseWriter, part []byte, first int) {
		if first > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, len(whole)-1, len(whole)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(part)
	}
	requests := 0
	for name, serve := range map[string]http.HandlerFunc{
		"breaks every MiB": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(whole)-from(r)))
			send(w, whole[from(r):min(from(r)+1<<20, len(whole))], from(r))
		},
		"breaks once and knows no ranges": func(w http.ResponseWriter, r *http.Request) {
			if w.Header().Set("Content-Length", strconv.Itoa(len(whole))); requests == 1 {
				send(w, whole[:3<<20], 0)
				return
			}
			send(w, whole, 0)
		},
		"ends early without saying so": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Transfer-Encoding", "chunked")
			send(w, whole[from(r):min(from(r)+2<<20, len(whole))], from(r))
		},
		"sends more than there is": func(w http.ResponseWriter, r *http.Request) {
			send(w, append(bytes.Clone(whole), "more"...), 0)
		},
		"is busy at first": func(w http.ResponseWriter, r *http.Request) {
			if requests < 4 {
				http.Error(w, "later", http.StatusServiceUnavailable)
				return
			}
			send(w, whole, 0)
		},
		"sends a wrong range at first": func(w http.ResponseWriter, r *http.Request) {
			switch requests {
			case 1:
				w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
				send(w, whole[:1<<20], 0)
			case 2:
				w.Header().Set("Content-Range", "bytes 5-9/10")
				w.WriteHeader(http.StatusPartialContent)
			default:
				send(w, whole[from(r):], from(r))
			}
		},
		"was wrong the first time": func(w http.ResponseWriter, r *http.Request) {
			if requests == 1 {
				send(w, make([]byte, len(whole)), 0)
				return
			}
			send(w, whole, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			requests = 0
			s, said := machineAt(t, func(w http.ResponseWriter, r *http.Request) { requests++; serve(w, r) })
			path := filepath.Join(t.TempDir(), "blob")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := s.fetch(t.Context(), "blob", blob, f); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) {
				t.Errorf("%d bytes arrived, and not as they were sent (%v)", len(got), err)
			}
		})
	}
}

func TestTheControllerHearsHowFarATransferIs(t *testing.T) {
	whole, blob := content(3 << 20)
	var told []protocol.BootProgress
	s, _ := machineAt(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != protocol.ProgressPath {
			_, _ = w.Write(whole)
			return
		}
		var p protocol.BootProgress
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			t.Error(err)
		}
		told = append(told, p)
	})
	for signs, want := range map[time.Duration]bool{0: false, time.Hour: false, time.Nanosecond: true} {
		s.signs, told = signs, nil
		f, err := os.Create(filepath.Join(t.TempDir(), "blob"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := s.fetch(t.Context(), "root image", blob, f); err != nil {
			t.Fatal(err)
		}
		if (len(told) > 0) != want {
			t.Errorf("every %s: %+v", signs, told)
		}
		for _, p := range told {
			if p.Step != protocol.StepInit || !strings.HasPrefix(p.Detail, "root image: ") ||
				!strings.HasSuffix(p.Detail, " of 3 MiB") {
				t.Errorf("%+v", p)
			}
		}
	}
}

func TestABlobThatIsWrongTwiceIsRefused(t *testing.T) {
	whole, blob := content(1 << 20)
	whole[7] ^= 1
	requests := 0
	s, said := machineAt(t, func(w http.ResponseWriter, r *http.Request) { requests++; _, _ = w.Write(whole) })
	f, err := os.Create(filepath.Join(t.TempDir(), "blob"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = s.fetch(t.Context(), "root image", blob, f)
	bad := damaged{}
	if !errors.As(err, &bad) || bad.want != blob.Digest || bad.got == blob.Digest || requests != 2 {
		t.Errorf("after %d requests: %v", requests, err)
	}
	if !strings.Contains(said.String(), "once more from the start") {
		t.Errorf("the console says %q", said)
	}
}

type fullDisk struct{ io.WriteSeeker }

func (fullDisk) Seek(int64, int) (int64, error) { return 0, nil }
func (fullDisk) Write([]byte) (int, error)      { return 0, errors.New("no space") }

func TestAFullDiskIsNotTheNetworksFault(t *testing.T) {
	whole, blob := content(1 << 20)
	requests := 0
	s, _ := machineAt(t, func(w http.ResponseWriter, r *http.Request) { requests++; _, _ = w.Write(whole) })
	if err := s.fetch(t.Context(), "root image", blob, fullDisk{}); err == nil || !strings.Contains(err.Error(), "no space") ||
		requests != 1 {
		t.Errorf("after %d requests: %v", requests, err)
	}
}

func TestATransferThatStandsStillIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		start := time.Now()
		_, err := pacedConn{ours}.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != silence {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

func TestPausesGrowAndBeginAnewWithProgress(t *testing.T) {
	var waited []time.Duration
	s := &server{console: console{io.Discard}, pause: func(_ context.Context, d time.Duration) error {
		waited = append(waited, d)
		return nil
	}}
	tries := 0
	err := s.again(t.Context(), "x", func() (bool, error) {
		if tries++; tries == 10 {
			return true, nil
		}
		return tries == 7, errors.New("no")
	})
	if want := "[250ms 500ms 1s 2s 4s 5s 250ms 500ms 1s]"; err != nil || fmt.Sprint(waited) != want {
		t.Errorf("waited %v, want %s (%v)", waited, want, err)
	}
}

func goodPlan() protocol.Plan {
	_, blob := content(1)
	return protocol.Plan{Root: blob, Agent: blob, Boot: protocol.BootFile{Node: "n1"}}
}

func TestThePlanIsAskedForUntilItCanBeGiven(t *testing.T) {
	requests := 0
	s, said := machineAt(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		switch {
		case r.URL.Path != protocol.PlanPath || r.URL.Query().Get("mac") != "52:54:00:00:00:01":
			t.Errorf("asked for %s", r.URL)
		case requests == 1:
			http.Error(w, "the database rests\x1b[2J", http.StatusServiceUnavailable)
		case requests == 2:
			http.NotFound(w, r)
		default:
			_ = json.NewEncoder(w).Encode(goodPlan())
		}
	})
	plan, err := s.plan(t.Context())
	if err != nil || plan.Boot.Node != "n1" {
		t.Errorf("%+v, %v", plan, err)
	}
	if !strings.Contains(said.String(), "503 Service Unavailable: the database rests [2J") {
		t.Errorf("the console says %q", said)
	}
}

func TestNothingToBootForAMinuteEndsTheBoot(t *testing.T) {
	start := time.Now()
	s, _ := machineAt(t, http.NotFound)
	s.pause = func(context.Context, time.Duration) error {
		if time.Since(start) > time.Minute {
			return errors.New("still asking")
		}
		return nil
	}
	s.nothingFor = 50 * time.Millisecond
	if _, err := s.plan(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing for this machine to boot") {
		t.Error(err)
	}
}

func TestPlansThatWouldHarmAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*protocol.Plan)
		want string
	}{
		"digest that leads elsewhere": {func(p *protocol.Plan) { p.Root.Digest = "sha256:../../x" }, "digest"},
		"no size":                     {func(p *protocol.Plan) { p.Agent.Size = 0 }, "size"},
		"endless size":                {func(p *protocol.Plan) { p.Root.Size = 1 << 62 }, "size"},
		"a disk for nobody":           {func(p *protocol.Plan) { p.Disk = true }, "whose"},
		"a name without end":          {func(p *protocol.Plan) { p.Keep = strings.Repeat("n", 201) }, "keep"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := goodPlan()
			c.edit(&plan)
			text, err := json.Marshal(plan)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parsePlan(text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %s", err, c.want)
			}
		})
	}
}

func FuzzPlan(f *testing.F) {
	good, _ := json.Marshal(goodPlan())
	f.Add(good)
	f.Add([]byte(`{"root":{"digest":"sha256:","size":-1},"disk":true}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		plan, err := parsePlan(text)
		if err != nil {
			return
		}
		if len(plan.Root.Digest) != 71 || plan.Root.Size <= 0 || plan.Agent.Size <= 0 || plan.Disk && plan.Keep == "" {
			t.Errorf("accepted %+v", plan)
		}
		if plan.Disk {
			if _, err := (label{plan.Keep, plan.Root.Digest, plan.Root.Size}).encode(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestProgressCarriesTheProofAndNotTheToken(t *testing.T) {
	var got protocol.BootProgress
	var authorization string
	s, said := machineAt(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body)+fmt.Sprint(r.Header), "secret") {
			t.Error("the token was sent")
		}
		_ = json.Unmarshal(body, &got)
		authorization = r.Header.Get("Authorization")
	})
	s.progress(t.Context(), protocol.StepProblem, strings.Repeat("x", 1000))
	sum := sha256.Sum256([]byte("secret"))
	if authorization != "Boot "+hex.EncodeToString(sum[:]) {
		t.Errorf("authorization %q", authorization)
	}
	if got.Step != protocol.StepProblem || got.MAC != "52:54:00:00:00:01" || len(got.Detail) != 500 || got.Took <= 0 ||
		said.Len() > 0 {
		t.Errorf("progress %+v, console %q", got, said)
	}
}

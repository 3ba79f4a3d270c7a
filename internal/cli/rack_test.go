package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/inventory"
	"muster/internal/rack"
)

func TestARackThatMakesNoSenseIsToldWithWhatWould(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	for _, c := range []struct{ line, says string }{
		{"up", "--machines N"},
		{"up --machines 0", "--machines N"},
		{"up --machines 1000", "use 1 to 250"},
		{"up --machines 1 --firmware coreboot", "use bios, uefi, mixed"},
		{"up --machines 1 --memory 4GB", "as in 4GiB"},
		{"up --machines 1 --disk-size many", "as in 4GiB"},
		{"on", "an argument is missing"},
		{"corrupt rack-1 --after x", "as in 4GiB"},
	} {
		args := append([]string{"rack"}, strings.Fields(c.line)...)
		muster(t, append(args, "--dir", dir)...).wants(t, exitInvalid, c.says)
	}
	for _, line := range []string{"list", "on rack-1", "console rack-1"} {
		args := append([]string{"rack"}, strings.Fields(line)...)
		muster(t, append(args, "--dir", dir)...).wants(t, exitNotFound, "there is no rack in "+dir)
	}
	muster(t, "rack", "down", "--dir", dir).wants(t, 0)
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder was made")
	}
}

func TestARackFromUpToDown(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: a rack needs root")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("skipped: QEMU is not installed")
	}
	parent, err := os.MkdirTemp("", "rack") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir, csv := filepath.Join(parent, "r"), filepath.Join(parent, "list.csv")
	defer muster(t, "rack", "down", "--dir", dir)

	s := newSite(t)
	var told []inventory.Network
	s.HandleFunc("PUT /v1/networks/lab", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var n inventory.Network
		if err := json.Unmarshal(text, &n); err != nil {
			t.Error(err)
		}
		told = append(told, n)
		reply(w, http.StatusOK, n)
	})
	s.answers("DELETE /v1/networks/lab", http.StatusOK, nil)

	program := filepath.Join(parent, "muster")
	if out, err := exec.Command("go", "build", "-o", program+"-rack", "muster/cmd/muster-rack").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	up := func(args ...string) result {
		var out, err bytes.Buffer
		a := &app{out: &screen{&out}, err: &screen{&err}, self: func() (string, error) { return program, nil }, timing: brisk()}
		code := a.run(t.Context(), append([]string{"rack", "up", "--dir", dir, "--csv", csv}, args...))
		return result{code, out.String(), err.String()}
	}
	up("--machines", "2", "--name", "lab", "--power", "mixed", "--memory", "128MiB", "--disk-size", "16MiB", "--accel", "tcg").
		wants(t, 0, "lab-2", "10.79.0.2", "muster machines import "+csv)
	up().wants(t, 0)
	up("--machines", "3").wants(t, exitConflict, "machines is 2, not 3")
	want := rack.Folder(dir).Network("lab")
	if len(told) != 2 || told[0] != want || told[1] != want {
		t.Errorf("the controller was told %v", told)
	}
	if text, err := os.ReadFile(csv); err != nil ||
		!bytes.HasPrefix(text, []byte("name,macs,network,power,credentials,ports\nlab-1,52:54:00:00:01:00,lab,wol,,m1n0\n")) {
		t.Errorf("the list: %v\n%s", err, text)
	}

	muster(t, "rack", "on", "lab-1", "--dir", dir).wants(t, 0, "lab-1 is on\n")
	muster(t, "rack", "slow", "lab-1", "lab-2", "--dir", dir).
		wants(t, 0, "lab-1 is on; faults: slow\nlab-2 is off; faults: slow\n")
	muster(t, "rack", "hang", "lab-2", "--dir", dir).wants(t, exitConflict, "lab-2: the machine is off")
	muster(t, "rack", "off", "lab-7", "--dir", dir).wants(t, exitNotFound, "lab-7")
	muster(t, "rack", "console", "lab-1", "--dir", dir).wants(t, 0)
	muster(t, "__complete", "rack", "on", "--dir", dir, "").wants(t, 0, "lab-1\nlab-2\n")
	var state rack.State
	if err := json.Unmarshal([]byte(muster(t, "rack", "list", "-o", "json", "--dir", dir).out), &state); err != nil {
		t.Fatal(err)
	}
	if m := state.Machines; len(m) != 2 || m[0].State != "on" || m[1].State != "off" ||
		!slices.Equal(m[1].Faults, []string{rack.Slow}) {
		t.Errorf("%+v", m)
	}

	inventoried := []apiv1.Machine{{Name: "lab-1", Network: "lab", Node: "cfd/n1"}, {Name: "local-1"}}
	s.HandleFunc("GET /v1/machines", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, apiv1.List[apiv1.Machine]{Items: inventoried})
	})
	s.HandleFunc("DELETE /v1/machines/lab-1", func(w http.ResponseWriter, _ *http.Request) {
		inventoried = inventoried[1:]
		reply(w, http.StatusOK, apiv1.Machine{Name: "lab-1", Desired: apiv1.ForRemoval})
	})
	muster(t, "rack", "down", "--dir", dir).wants(t, exitConflict, "lab-1 is used by cfd/n1", "--force")
	inventoried[0].Node = ""
	muster(t, "rack", "down", "--dir", dir).wants(t, 0)
	muster(t, "rack", "down", "--dir", dir).wants(t, 0)
	if len(inventoried) != 1 {
		t.Errorf("in the inventory are %v", inventoried)
	}
	for _, path := range []string{dir, csv} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	if asked := s.asked(); asked[len(asked)-1] != "DELETE /v1/networks/lab" {
		t.Errorf("the controller was asked %v", asked)
	}
}

func TestARackNeedsNoControllerAndHeedsOne(t *testing.T) {
	var out, told bytes.Buffer
	a := &app{out: &screen{&out}, err: &screen{&told}, timing: brisk()}
	t.Setenv(envURL, "")
	t.Setenv(envData, t.TempDir())
	if err := a.announceRack(t.Context(), "/srv/rack", "rack"); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(told.Bytes(), []byte("repeat `muster rack up` to add it")) {
		t.Error(told.String())
	}
	s := newSite(t)
	s.HandleFunc("PUT /v1/networks/rack", func(w http.ResponseWriter, _ *http.Request) {
		tellProblem(w, apiv1.Problem{Status: http.StatusConflict, Code: "conflict", Detail: "there is another one"})
	})
	if err := a.announceRack(t.Context(), "/srv/rack", "rack"); exitOf(err) != exitConflict {
		t.Error(err)
	}
}

func TestAConsoleDoesNotMoveTheCursor(t *testing.T) {
	for _, size := range []int{1, 3, 1000} { // whatever the pieces that it comes in
		var have bytes.Buffer
		w := &plainText{to: &have}
		text := []byte("\x1bc\x1b[?7l\x1b[2J\x1b[0mSeaBIOS (version 1)\r\n\x1b[01;31mred\x08\x1b[m é\n")
		for piece := range slices.Chunk(text, size) {
			fmt.Fprintf(w, "%s", piece)
		}
		if have.String() != "SeaBIOS (version 1)\nred é\n" {
			t.Errorf("in pieces of %d: %q", size, have.String())
		}
	}
}

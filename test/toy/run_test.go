package toy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	store "muster/internal/boot/images"
	"muster/internal/serve"
)

// A controller whose list has the toy's line runs a cluster on it: it enrols machines, inspects them, starts nodes, hears their
// agents, hands them over, and proves at the end that nothing is left.
func TestAClusterOnTheToyIsRunByAController(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a controller needs root")
	}
	data := t.TempDir()
	addImage(t, filepath.Join(data, "images"))
	path := filepath.Join(t.TempDir(), "site.yaml")
	if err := os.WriteFile(path, []byte(site+"acceptance: {test: off}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Config{
			Data: data, Listen: "127.0.0.1:0", Site: path, Binary: binary, Version: "test", Substrates: all(),
			Log: slog.New(slog.DiscardHandler), Ready: func(url string) { ready <- url },
		})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var c apiv1.HTTP
	select {
	case c.Address = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	c.Token = strings.TrimSpace(string(token))

	if _, _, err := apiv1.AddMachines.Call(ctx, c,
		apiv1.AddMachinesInput{Body: apiv1.AddMachinesBody{Substrate: "pool", Count: 3}}); err != nil {
		t.Fatal(err)
	}
	const file = "name: c\nnodes: 2\nsoftware: {scheduler: none}\n"
	await(t, "created", func() (string, bool) { // once its machines have been inspected
		_, _, err := apiv1.CreateCluster.Call(ctx, c, apiv1.CreateClusterInput{FileInput: apiv1.FileInput{RawBody: []byte(file)}})
		return fmt.Sprint(err), err == nil
	})
	ref := apiv1.ClusterRef{Cluster: "c"}
	await(t, "ready", func() (string, bool) {
		seen, raw, err := apiv1.GetCluster.Call(ctx, c, ref)
		return fmt.Sprintf("%v: %s", err, raw), seen.Phase == "ready"
	})
	if _, _, err := apiv1.DeleteCluster.Call(ctx, c, apiv1.DeleteClusterInput{ClusterRef: ref}); err != nil {
		t.Fatal(err)
	}
	await(t, "deleted", func() (string, bool) {
		seen, raw, err := apiv1.GetCluster.Call(ctx, c, ref)
		return fmt.Sprintf("%v: %s", err, raw), seen.Phase == "deleted" || statusOf(err) == http.StatusNotFound
	})
	await(t, "given back", func() (string, bool) {
		machines, err := apiv1.All(ctx, c, apiv1.ListMachines, apiv1.ListMachinesInput{})
		free := 0
		for _, m := range machines {
			if m.Phase == "available" {
				free++
			}
		}
		return fmt.Sprintf("%v: %+v", err, machines), free == 3
	})
}

// await looks until something is so.
func await(t *testing.T, what string, look func() (seen string, is bool)) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		seen, is := look()
		if is {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not %s: %s", what, seen)
		}
	}
}

// statusOf is what a controller refuses something with.
func statusOf(err error) int {
	var p *apiv1.Problem
	if errors.As(err, &p) {
		return p.Status
	}
	return 0
}

// addImage puts an image into a store whose files the pool does not read.
func addImage(t *testing.T, at string) {
	t.Helper()
	hex := strings.Repeat("0a", 32)
	file := func(name string) *store.File { return &store.File{File: name, Digest: "sha256:" + hex} }
	text, err := json.Marshal(store.Manifest{
		Format: store.Format, Name: "linux", Arch: "amd64", Digest: "sha256:" + hex, Kernel: file(store.KernelFile),
		Drivers: file(store.DriversFile),
	})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(at, "linux", hex)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, store.ManifestFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(hex, filepath.Join(at, "linux", "latest")); err != nil {
		t.Fatal(err)
	}
}

package e2e_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

type siteSecret struct{ Name, ID, State, Waits string }

// siteSecrets lists them.
func siteSecrets(r *rig.Rig) (all []siteSecret) {
	r.Helper()
	var list struct{ Items []siteSecret }
	r.Get(&list, "secrets", "list")
	return list.Items
}

// rotating says which are between two generations, and for whom they wait.
func rotating(r *rig.Rig) (names, waits string) {
	for _, s := range siteSecrets(r) {
		if s.State != "in use" || strings.HasPrefix(s.Name, "munge/") && s.Waits != "" {
			names, waits = names+s.Name+" ", waits+s.Waits+" "
		}
	}
	return names, waits
}

// TestEverySecretIsRotatedUnderARunningJob: while a job runs, somebody is logged in, one node hangs and one is new; then
// once more, and the controller dies in the middle.
func TestEverySecretIsRotatedUnderARunningJob(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Flags = []string{"--ssh", "127.0.0.1:0"}
	c := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "-f", r.File("cfd.yaml", "name: cfd\nnodes: 2\n"), "--wait")
	d := newDoor(r)
	before := map[string]string{}
	for _, s := range siteSecrets(r) {
		before[s.Name] = s.ID
	}
	r.Run("ssh", "cfd", "--", `printf '#!/bin/sh\nfor i in $(seq 40); do sleep 1; done\nsrun -N2 hostname | sort\necho whole\n' > job.sh; sbatch -N2 -o job.out job.sh`)
	session := exec.Command("ssh", "-F", d.config, "cfd@gw", "for i in $(seq 30); do echo tick; sleep 1; done; echo whole")
	var said bytes.Buffer
	session.Stdout, session.Stderr = &said, &said
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	r.Until("the job runs", func() bool { return strings.Contains(r.Run("ssh", "cfd", "--", "squeue -h -o %T"), "RUNNING") })

	hangs := r.Node("cfd", "n2")
	hangs.Freeze()
	r.Run("secrets", "rotate", "all", "--announce", "0s", "--keep", "0s")
	r.Until("it waits for the node that hangs", func() bool {
		_, waits := rotating(r)
		return strings.Contains(waits, "default/cfd n2")
	})
	if names, _ := rotating(r); !strings.Contains(names, "agents-ca") {
		t.Errorf("a node that hangs was left behind: %q is being rotated", names)
	}
	r.Run("scale", "cfd", "3") // the third boots by two generations
	hangs.Thaw()
	r.Until("the rotation ends", func() bool { names, _ := rotating(r); return names == "" })
	for _, s := range siteSecrets(r) {
		if before[s.Name] == s.ID && s.Name != "site-key" {
			t.Errorf("%s is as it was", s.Name)
		}
	}
	r.Until("the third node is there", func() bool {
		return strings.Contains(r.Run("list"), "3/3")
	})
	if out := r.Run("ssh", "cfd", "--", "srun -N1 -w n3 hostname"); out != "n3\n" {
		t.Errorf("the new node's Slurm says %q", out)
	}
	if err := session.Wait(); err != nil || !strings.HasSuffix(said.String(), "whole\n") {
		t.Errorf("the session: %v, %.200q", err, said.String())
	}
	r.Run("secrets", "rotate", "root", "--announce", "0s", "--keep", "0s")
	c.Kill() // and the next one goes on
	c = r.Start()
	if names, _ := rotating(r); names == "" {
		t.Error("the rotation had ended before the controller did")
	}
	r.Until("the other controller ends the rotation", func() bool { names, _ := rotating(r); return names == "" })
	r.Until("the job ends", func() bool { return r.Run("ssh", "cfd", "--", "squeue -h") == "" })
	if out := r.Run("ssh", "cfd", "--", "cat job.out"); out != "n1\nn2\nwhole\n" {
		t.Errorf("the job says %q", out)
	}
	if out := r.Run("ssh", "cfd", "--", "ssh -o BatchMode=yes n2 hostname"); out != "n2\n" {
		t.Errorf("from node to node: %q", out)
	}
	events := r.Run("events", "cfd")
	for _, word := range []string{"failed:", "lost"} {
		if strings.Contains(events, word) {
			t.Errorf("something was lost:\n%s", events)
		}
	}

	// And the database has none of it in clear.
	key, err := os.ReadFile(filepath.Join(r.Data, "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte(r.Node("cfd", "n1").Inside("base64 -w0 /etc/munge/munge.key"))
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(secret)))
	if err != nil || len(raw) != 128 {
		t.Fatalf("munge.key has %d bytes: %v", len(raw), err)
	}
	r.Run("secrets", "rekey")
	r.Until("all is sealed again", func() bool { names, _ := rotating(r); return names == "" })
	var files []byte
	for _, name := range []string{"muster.db", "muster.db-wal"} {
		text, err := os.ReadFile(filepath.Join(r.Data, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, text...)
	}
	for what, secret := range map[string][]byte{
		"munge's key": raw, "munge's key in base64": bytes.TrimSpace(secret), "a private key": []byte("PRIVATE KEY"),
		"the site's key": bytes.TrimSpace(key[bytes.LastIndexByte(bytes.TrimSpace(key), '\n')+1:]),
	} {
		if bytes.Contains(files, secret) {
			t.Errorf("%s is in the database's files", what)
		}
	}
	if now, err := os.ReadFile(filepath.Join(r.Data, "site.key")); err != nil || bytes.Equal(now, key) {
		t.Errorf("the key is the same after a rekey: %v", err)
	}
	c.Stop()
}

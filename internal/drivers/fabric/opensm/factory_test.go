package opensm

import (
	"reflect"
	"testing"

	fabrics "muster/internal/drivers/fabric"
	"muster/internal/drivers/fabric/diags"
	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/drivers/fabric/opensm/ibsim"
	"muster/internal/drivers/fabric/opensm/opensmtest"
	"muster/internal/fabric"
)

func TestASiteNamesAHostForEachManager(t *testing.T) {
	at := fabrics.Directives{Scratch: t.TempDir(), Managers: []fabric.GUID{1, 2},
		Given: map[string]string{"hosts": "here, root@sm2", "options": "-C mlx5_1"}}
	opened, err := open(at)
	if err != nil {
		t.Fatal(err)
	}
	o := opened.(*OpenSM)
	here, err := diags.ShellOf("here")
	if err != nil {
		t.Fatal(err)
	}
	want := []Manager{Host{Shell: here, GUID: 1},
		Host{Shell: diags.Shell{"ssh", "-oBatchMode=yes", "-oConnectTimeout=10", "-oForwardAgent=no", "-oClearAllForwardings=yes",
			"--", "root@sm2", "sh", "-s"}, GUID: 2}}
	if !reflect.DeepEqual(o.Managers, want) ||
		!reflect.DeepEqual(o.Observer, diags.Programs{Shell: here, Options: []string{"-C", "mlx5_1"}}) {
		t.Errorf("%v, %v", o.Managers, o.Observer)
	}
	for _, bad := range []string{"here", "here,here,here", "here,", "here,-oProxyCommand=x", "here,a b",
		"here,root@-oProxyCommand=x", "here,$(id)", "here,a%h", "here,a#b", "here,ssh://-x"} {
		at.Given = map[string]string{"hosts": bad}
		if _, err := open(at); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestAReaderReadsWhatPortsHoldAndTellsNoManager(t *testing.T) {
	r := newRig(t, 4, 2, 1, 1)
	environment, err := r.Environment(node(1))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	t.Setenv("PATH", opensmtest.Programs(t, folder, environment))
	read, err := diags.Reader("here", "-t 500")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := read(t.Context())
	if err != nil || len(tables) != 4 {
		t.Fatalf("%v, %v", tables, err)
	}
	for port, table := range tables {
		want := fabric.DefaultKey.In(fabric.Limited)
		if port == fabrictest.HostPort(0) {
			want = fabric.DefaultKey.In(fabric.Full)
		}
		if !reflect.DeepEqual(table, fabric.Port{Entries: []fabric.Entry{want}, Capacity: ibsim.TableSize}) {
			t.Errorf("port %s: %+v", port, table)
		}
	}
	if _, err := diags.Reader("two words", ""); err == nil {
		t.Error("a host that is none is taken")
	}
}

package fabriclife_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"muster/internal/datadir"
	"muster/internal/drivers"
	"muster/internal/fabric"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/fabric/fabriclife"
	"muster/internal/kit/private"
)

// folders is a data directory with a secret and a script of root's.
func folders(t *testing.T) datadir.Dir {
	t.Helper()
	d := datadir.Dir(t.TempDir())
	if err := d.Make(slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(d.Secrets(), "ufm"):  "secret\nfor ufm.example.org\n",
		filepath.Join(d.Secrets(), "here"): "secret\nfor 127.0.0.1\n", filepath.Join(d.Signals(), "reload"): "true\n",
		d.Path("admin.token"): "muster_admin\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// open has drivers with what root says of fabrics.
func open(d datadir.Dir, root map[string]map[string]string) *fabriclife.Drivers {
	return &fabriclife.Drivers{All: drivers.Fabrics(), Root: root, Scratch: d.Fabrics(), Signals: private.Dir(d.Signals()),
		Secrets: private.Dir(d.Secrets())}
}

func TestDriversOfFabricsAreOpenedFromRows(t *testing.T) {
	row := fabrics.Fabric{ID: "f1", Name: "ib0", Driver: "opensm", Managers: []fabric.GUID{1, 2}}
	for name, c := range map[string]struct {
		driver string
		config map[string]string
		wrong  string // "": nothing is
	}{
		"plain": {"opensm", map[string]string{"hosts": "here,root@sm2"}, ""},
		"all": {"opensm", map[string]string{"hosts": "here,root@sm2", "partitions": "/etc/opensm/partitions.conf",
			"log": "/var/log/opensm.log", "signal": "reload",
			"options": "-C mlx5_1 -P 1"}, ""},
		"too much":      {"opensm", map[string]string{"shell": "sh -s"}, `knows no "shell"; it is told hosts, log, options`},
		"ufm":           {"ufm", map[string]string{"url": "https://ufm.example.org", "token_file": "ufm"}, ""},
		"ufm's nothing": {"ufm", map[string]string{"url": "https://ufm.example.org", "token_file": "nowhere"}, "no such file"},
		"ufm's reader": {"ufm", map[string]string{"url": "https://ufm.example.org", "reader": "two words"},
			`"two words" is no host`},
		"no reader": {"ufm", map[string]string{"url": "https://ufm.example.org", "options": "-C mlx5_1"},
			"no reader is named"},
		"ufm without":    {"ufm", nil, "told url, which is where UFM is"},
		"unknown driver": {"subnet", nil, `there is no driver "subnet"; there are opensm, ufm`},
	} {
		t.Run(name, func(t *testing.T) {
			f := row
			f.Driver, f.Config = c.driver, c.config
			err := open(folders(t), nil).Check(f)
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestAnOperatorOfAFabricIsNotRoot says what somebody may say who runs the site and is not root on the controller's host: no
// command, no path, no secret that is not named, and no secret to a host of their own. A row with such words is no better.
func TestAnOperatorOfAFabricIsNotRoot(t *testing.T) {
	d := folders(t)
	var heard atomic.Value
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		heard.Store(r.Header.Get("Authorization"))
	}))
	defer thief.Close()
	if err := os.Symlink(d.Path("admin.token"), filepath.Join(d.Secrets(), "link")); err != nil {
		t.Fatal(err)
	}
	loose := filepath.Join(d.Signals(), "open")
	if err := os.WriteFile(loose, []byte("true"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(loose, 0o666); err != nil {
		t.Fatal(err)
	}
	outside := d.Path("admin.token")
	for name, c := range map[string]struct {
		driver string
		config map[string]string
		wrong  string
	}{
		"a command": {"opensm", map[string]string{"signal": "id >/root/owned"},
			"a command is not taken from the API"},
		"a command of one word":      {"opensm", map[string]string{"signal": "reboot"}, "no such file"},
		"a path as signal":           {"opensm", map[string]string{"signal": "/bin/true"}, "a command is not taken"},
		"signal.d/..":                {"opensm", map[string]string{"signal": "../admin.token"}, "a command is not taken"},
		"a script that others write": {"opensm", map[string]string{"signal": "open"}, "chmod go-w"},
		"another file": {"opensm", map[string]string{"partitions": "/etc/passwd"},
			"another file than /etc/opensm/partitions.conf is not taken from the API"},
		"another file, dressed up": {"opensm", map[string]string{"partitions": "/etc/opensm/../passwd"},
			"not taken from the API"},
		"a log": {"opensm", map[string]string{"log": "/etc/shadow"},
			"another file than /var/log/opensm.log"},
		"an option with a file": {"opensm", map[string]string{"options": "--cache /etc/cron.d/x"},
			"not among -C ADAPTER"},
		"a file after an option": {"opensm", map[string]string{"options": "-C mlx5_1 /etc/passwd"},
			"not among -C ADAPTER"},
		"an option in one word": {"opensm", map[string]string{"options": "-z/etc/shadow"}, "not among -C ADAPTER"},
		"an option of ssh":      {"opensm", map[string]string{"hosts": "-oProxyCommand=id"}, "is no host"},
		"a host with a command": {"opensm", map[string]string{"hosts": "$(id)"}, "is no host"},
		"a path as token": {"ufm", map[string]string{"url": "https://ufm.example.org", "token_file": outside},
			"is a path; secrets lie in"},
		"a path as password": {"ufm", map[string]string{"url": "https://ufm.example.org", "user": "u",
			"password_file": "/etc/shadow"}, "is a path; secrets lie in"},
		"a path as authority": {"ufm", map[string]string{"url": "https://ufm.example.org", "token_file": "ufm",
			"ca_file": "/etc/shadow"}, "is a path; secrets lie in"},
		"secrets.d/..": {"ufm",
			map[string]string{"url": "https://ufm.example.org", "token_file": "../admin.token"}, "no path"},
		"a link out of secrets.d": {"ufm", map[string]string{"url": "https://ufm.example.org", "token_file": "link"},
			"a link is not followed"},
		"a secret for somebody else": {"ufm", map[string]string{"url": "https://thief.example.org", "token_file": "ufm"},
			"root has not said that it may be shown to thief.example.org"},
		"this host": {"ufm", map[string]string{"url": thief.URL, "token_file": "here"}, "at another host"},
		"this host, by https": {"ufm", map[string]string{"url": "https://127.0.0.1:1", "token_file": "here"},
			"at another host"},
		"this host's links": {"ufm", map[string]string{"url": "https://169.254.169.254", "token_file": "here"},
			"may be shown to 169.254.169.254"},
		"in the clear": {"ufm", map[string]string{"url": "http://ufm.example.org", "token_file": "ufm"},
			"by https"},
		"a file in the address": {"ufm", map[string]string{"url": "file:///etc/shadow", "token_file": "ufm"},
			"root has not said"},
		"a path as reader": {"ufm", map[string]string{"url": "https://ufm.example.org", "token_file": "ufm",
			"reader": "/bin/sh"}, "is no host"},
		"the audit's": {"ufm", map[string]string{"url": thief.URL, "token_file": outside},
			"is a path; secrets lie in"},
		"the administrator's own token": {"ufm", map[string]string{"url": thief.URL, "user": "u", "password_file": "admin.token"},
			"no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			all := open(d, nil)
			f := fabrics.Fabric{ID: "f1", Name: "ib0", Driver: c.driver, Managers: []fabric.GUID{1}, Config: c.config}
			err := all.Check(f)
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, %q wanted", err, c.wrong)
			}
			driver, err := all.Driver(f)
			if err == nil {
				t.Errorf("a row of that is opened: %+v", driver)
			}
		})
	}
	if told := heard.Load(); told != nil {
		t.Errorf("somebody was told %q", told)
	}
}

// TestRootMaySayWhatOperatorsMayNot, in the site file.
func TestRootMaySayWhatOperatorsMayNot(t *testing.T) {
	d := folders(t)
	opensm := fabrics.Fabric{ID: "f1", Name: "ib0", Driver: "opensm", Managers: []fabric.GUID{1},
		Config: map[string]string{"partitions": "/srv/p", "log": "/srv/l", "signal": "kill -HUP 1", "options": "-z /etc/m_key"}}
	_, err := open(d, nil).Driver(opensm)
	if err == nil || !strings.Contains(err.Error(), `root says it in the site file: "fabrics: {ib0: {partitions: "/srv/p"}}"`) {
		t.Error(err)
	}
	if _, err := open(d, map[string]map[string]string{"ib0": opensm.Config}).Driver(opensm); err != nil {
		t.Error(err)
	}
}

func TestADriverStaysUntilItsRowChanges(t *testing.T) {
	all := open(folders(t), nil)
	row := fabrics.Fabric{ID: "f1", Name: "ib0", Driver: "opensm", Managers: []fabric.GUID{1}}
	first, err := all.Driver(row)
	if err != nil {
		t.Fatal(err)
	}
	row.Revision, row.Reason = 7, "something else"
	if again, err := all.Driver(row); err != nil || again != first {
		t.Errorf("another one for the same: %v", err)
	}
	row.Config = map[string]string{"options": "-C mlx5_1"}
	if other, err := all.Driver(row); err != nil || other == first {
		t.Errorf("the same for another: %v", err)
	}
}

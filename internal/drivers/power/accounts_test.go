package power_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/hal/mock"

	"muster/internal/drivers/power"
)

// accounts lists a BMC's users as an inspection does.
func accounts(t *testing.T, target power.Target) []string {
	t.Helper()
	got, err := open(t, power.Opener{}, target).(power.Accountant).Accounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantUsers says which lines about users there have to be; others tell of channels.
func wantUsers(t *testing.T, got []string, want ...string) {
	t.Helper()
	users := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return !strings.Contains(line, "user ") })
	if !slices.Equal(users, want) {
		t.Errorf("users %q, want %q", users, want)
	}
}

// TestAUserAddedInABMCIsSeen by ipmi_sim, whose second user is added as root on the machine would with ipmitool.
func TestAUserAddedInABMCIsSeen(t *testing.T) {
	simulator, err := exec.LookPath("ipmi_sim")
	if err != nil {
		t.Skip("skipped: ipmi_sim is not installed; `make test` does that")
	}
	serve := func(more string) power.Target {
		space, dir := namespace(t), t.TempDir()
		write(t, filepath.Join(dir, "lan.conf"), 0o600, `name "muster"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 623
    priv_limit admin
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  user 2 true "`+user+`" "`+password+`" operator 10 none md2 md5 straight
`+more)
		write(t, filepath.Join(dir, "commands"), 0o600, "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nmc_enable 0x20\n")
		c := exec.Command(simulator, "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "commands"), "-s", dir, "-n")
		c.Stderr = os.Stderr
		start(t, space, c)
		p := target(space, "ipmi://127.0.0.1:623", secretFile(t, user+":"+password))
		answers(t, func() error { _, err := open(t, power.Opener{}, p).State(t.Context()); return err })
		return p
	}
	clean := serve("")
	before := accounts(t, clean)
	wantUsers(t, before, `channel 1: user 2 "ADMIN": operator`)
	if again := accounts(t, clean); !slices.Equal(before, again) {
		t.Errorf("%q, and then %q", before, again)
	}
	wantUsers(t, accounts(t, serve(`  user 3 true "mallory" "password" admin 10 none md2 md5 straight`+"\n")),
		`channel 1: user 2 "ADMIN": operator`, `channel 1: user 3 "mallory": administrator`)
}

func TestUsersOfGoIPMIsBMCAreListed(t *testing.T) {
	space := namespace(t)
	goIPMI(t, space, "127.0.0.1:623", mock.New(), nil)
	got, err := open(t, power.Opener{}, target(space, "ipmi://127.0.0.1", secretFile(t, user+":"+password))).(power.Accountant).Accounts(t.Context())
	if err != nil && !errors.Is(err, power.ErrUnsupported) {
		t.Fatal(err)
	}
	if err == nil && !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, `"ADMIN": operator`) }) {
		t.Errorf("%q", got)
	}
	t.Logf("%q, %v", got, err)
}

// TestUsersOfARedfishServiceAreListed with those it has from a directory, and none where it shows none.
func TestUsersOfARedfishServiceAreListed(t *testing.T) {
	space, b := namespace(t), newService()
	b.accounts = []map[string]any{{"UserName": user, "RoleId": "Administrator", "Enabled": true}, {"UserName": ""}, {"UserName": "old", "Enabled": false}}
	p := target(space, serve(t, space, b), secretFile(t, user+":"+password))
	wantUsers(t, accounts(t, p), `user "ADMIN": Administrator`, `user "old": disabled`)
	b.mutex.Lock()
	b.accounts = append(b.accounts, map[string]any{"UserName": "mallory", "RoleId": "Administrator", "Enabled": true})
	b.ldap = true
	b.mutex.Unlock()
	got := accounts(t, p)
	wantUsers(t, got, `user "ADMIN": Administrator`, `user "mallory": Administrator`, `user "old": disabled`)
	if !slices.Contains(got, `LDAP is asked: ["ldaps://evil.example"]`) {
		t.Errorf("%q", got)
	}
	b.mutex.Lock()
	b.accounts = nil
	b.mutex.Unlock()
	if _, err := open(t, power.Opener{}, p).(power.Accountant).Accounts(t.Context()); !errors.Is(err, power.ErrUnsupported) {
		t.Error(err)
	}
}

// serveAccounts answers for an AccountService as DSP0266 and its schemas have it; false: it is asked for something else.
func (b *bmcService) serveAccounts(w http.ResponseWriter, path string) bool {
	const service = "/redfish/v1/AccountService"
	if b.accounts == nil || !strings.HasPrefix(path, service) {
		return false
	}
	switch rest := strings.TrimPrefix(path, service); rest {
	case "":
		answer(w, map[string]any{"Accounts": link(service + "/Accounts"), "LDAP": map[string]any{"ServiceEnabled": b.ldap, "ServiceAddresses": []string{"ldaps://evil.example"}}})
	case "/Accounts":
		answer(w, map[string]any{"Members": []any{link(service + "/Accounts/0")}, "Members@odata.nextLink": service + "/Accounts/more"})
	case "/Accounts/more":
		var members []any
		for i := range b.accounts[1:] {
			members = append(members, link(service+"/Accounts/"+string(rune('1'+i))))
		}
		answer(w, map[string]any{"Members": members})
	default:
		answer(w, b.accounts[rest[len(rest)-1]-'0'])
	}
	return true
}

package ipmi_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/hal/mock"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/powertest"
)

// TestAUserAddedInABMCIsSeen by ipmi_sim, whose second user is added as root on the machine would with ipmitool.
func TestAUserAddedInABMCIsSeen(t *testing.T) {
	simulator, err := exec.LookPath("ipmi_sim")
	if err != nil {
		t.Skip("skipped: ipmi_sim is not installed; `make test` does that")
	}
	serve := func(more string) power.Target {
		space, dir := powertest.Namespace(t), t.TempDir()
		powertest.Write(t, filepath.Join(dir, "lan.conf"), 0o600, `name "muster"
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
		powertest.Write(t, filepath.Join(dir, "commands"), 0o600,
			"mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nmc_enable 0x20\n")
		c := exec.Command(simulator, "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "commands"), "-s", dir, "-n")
		c.Stderr = os.Stderr
		powertest.Start(t, space, c)
		p := powertest.Target(space, "ipmi://127.0.0.1:623", powertest.Secret(t))
		powertest.Answers(t, open(t, p))
		return p
	}
	clean := serve("")
	before := powertest.Accounts(t, open(t, clean))
	powertest.WantUsers(t, before, `channel 1: user 2 "ADMIN": operator`)
	if again := powertest.Accounts(t, open(t, clean)); !slices.Equal(before, again) {
		t.Errorf("%q, and then %q", before, again)
	}
	powertest.WantUsers(t, powertest.Accounts(t,
		open(t, serve(`  user 3 true "mallory" "password" admin 10 none md2 md5 straight`+"\n"))),
		`channel 1: user 2 "ADMIN": operator`, `channel 1: user 3 "mallory": administrator`)
}

func TestUsersOfGoIPMIsBMCAreListed(t *testing.T) {
	space := powertest.Namespace(t)
	goIPMI(t, space, "127.0.0.1:623", mock.New(), nil)
	got, err := open(t, powertest.Target(space, "ipmi://127.0.0.1", powertest.Secret(t))).(power.Accountant).Accounts(t.Context())
	if err != nil && !errors.Is(err, power.ErrUnsupported) {
		t.Fatal(err)
	}
	if err == nil && !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, `"ADMIN": operator`) }) {
		t.Errorf("%q", got)
	}
	t.Logf("%q, %v", got, err)
}

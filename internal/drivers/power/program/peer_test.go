package program_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"muster/internal/drivers/power/powertest"
	"muster/internal/drivers/power/program"
)

const (
	user     = powertest.User
	password = powertest.Password
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestItKeepsTheContract with a shell script.
func TestItKeepsTheContract(t *testing.T) { powertest.Test(t, program.Factory(), peer) }

// peer is a site's shell script that keeps the state of its machines in files.
func peer(t *testing.T) powertest.Peer {
	powertest.NeedRoot(t)
	dir, state := t.TempDir(), t.TempDir()
	powertest.Write(t, filepath.Join(dir, "pdu"), 0o700, `#!/bin/sh
read -r credentials
[ "$credentials" = '`+user+":"+password+`' ] || { echo "refused: $credentials" >&2; exit 4; }
state=$1/$MUSTER_MACHINE
case $2 in
state) cat "$state" 2>/dev/null || echo off ;;
on | off) echo $2 >"$state" ;;
boot-network) echo "$MUSTER_MACS" >"$state.boot" ;;
*) exit 3 ;;
esac
`)
	powertest.Write(t, filepath.Join(dir, "hang"), 0o700, "#!/bin/sh\nsleep 60 & wait\n")
	credentials := powertest.Secret(t)
	return powertest.Peer{
		Programs: dir,
		Target:   powertest.Target(powertest.Namespace(t), "command:pdu?arg="+state, credentials),
		Dead:     powertest.Target("", "command:hang", credentials),
		Boots: func() error {
			text, err := os.ReadFile(filepath.Join(state, "n1.boot"))
			if err != nil || strings.TrimSpace(string(text)) != "52:54:00:00:00:01" {
				return fmt.Errorf("the script was told of %q: %w", text, err)
			}
			return nil
		},
	}
}

package power_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/drivers/power"
)

// commandPeer is a site's shell script that keeps the state of its machines in files.
func commandPeer(t *testing.T) peer {
	needRoot(t)
	dir, state := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "pdu"), 0o700, `#!/bin/sh
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
	write(t, filepath.Join(dir, "hang"), 0o700, "#!/bin/sh\nsleep 60 & wait\n")
	credentials := secretFile(t, user+":"+password)
	return peer{
		opener: power.Opener{CommandDir: dir},
		target: target(namespace(t), "command:pdu?arg="+state, credentials),
		dead:   target("", "command:hang", credentials),
		boots: func() error {
			text, err := os.ReadFile(filepath.Join(state, "n1.boot"))
			if err != nil || strings.TrimSpace(string(text)) != "52:54:00:00:00:01" {
				return fmt.Errorf("the script was told of %q: %w", text, err)
			}
			return nil
		},
	}
}

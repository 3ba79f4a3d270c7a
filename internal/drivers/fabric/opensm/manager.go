package opensm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"muster/internal/drivers/fabric/diags"
	"muster/internal/fabric"
	"muster/internal/kit/pattern"
	"muster/internal/kit/shell"
	"muster/internal/kit/wrap"
)

// Manager is one subnet manager. All methods may be called again.
type Manager interface {
	// Port is the port that it manages from.
	Port() fabric.GUID
	// Files reads its partitions, and the copy that Write left beside them; nil where there is none.
	Files(ctx context.Context) (file, copied []byte, err error)
	// Write replaces both, the copy first, each in one step: a reader meanwhile sees the old one or the new one.
	Write(ctx context.Context, file []byte) error
	// Reload has it read its partitions again; it returns before that is done.
	Reload(ctx context.Context) error
	// Log is what it wrote to its log after so many bytes, and how many there are now. A log that was begun again is read
	// from its beginning. Below zero: nothing, only how many there are.
	Log(ctx context.Context, from int64) (text string, size int64, err error)
}

// Host is an opensm on a host that a shell reaches.
type Host struct {
	Shell  diags.Shell
	GUID   fabric.GUID
	File   string // its partitions; "": DefaultFile
	Logs   string // its log; "": DefaultLog
	Signal string // command that has it read its partitions again; "": DefaultSignal
	// Script reads the script for sh that is run instead of Signal, at each signal; nil: there is none.
	Script func() (string, error)
}

// What Debian's opensm uses.
const (
	DefaultFile   = "/etc/opensm/partitions.conf"
	DefaultLog    = "/var/log/opensm.log"
	DefaultSignal = "pkill -HUP -x opensm"
)

// mostLog is how many bytes of a log are read at once.
const mostLog = 1 << 20

var _ Manager = Host{}

// Port is the port that it manages from.
func (h Host) Port() fabric.GUID { return h.GUID }

// Files reads the manager's file and the copy beside it.
func (h Host) Files(ctx context.Context) (file, copied []byte, err error) {
	out, err := h.Shell.Run(ctx, fmt.Sprintf(`
for f in %[1]s %[1]s.muster; do
	if [ -f "$f" ]; then c=$(wc -c <"$f") && echo "$c" && head -c "$c" "$f" || exit 1; else echo -1; fi
done
`, shell.Quoted(cmp.Or(h.File, DefaultFile))))
	if err != nil {
		return nil, nil, fmt.Errorf("the partitions of the manager at port %s: %w", h.GUID, err)
	}
	if file, out, err = cutFile(out); err == nil {
		copied, out, err = cutFile(out)
	}
	if err != nil || len(out) > 0 {
		return nil, nil, fmt.Errorf("the partitions of the manager at port %s: what was read is not whole", h.GUID)
	}
	return file, copied, nil
}

// cutFile takes a file from what Files' script printed: its length, a line's end, its bytes.
func cutFile(out []byte) (file, rest []byte, err error) {
	head, rest, _ := bytes.Cut(out, []byte("\n"))
	n, err := strconv.Atoi(strings.TrimSpace(string(head)))
	switch {
	case err != nil || n < -1 || n > len(rest):
		return nil, nil, fmt.Errorf("%q is no length", head)
	case n == -1:
		return nil, rest, nil
	}
	return rest[:n:n], rest[n:], nil
}

// Write replaces the manager's file and the copy beside it. A file that came damaged is not taken. What stands in the way and
// is no file is moved aside, since opensm gives all ports to each other while it cannot read its partitions.
func (h Host) Write(ctx context.Context, file []byte) error {
	sum := sha256.Sum256(file)
	_, err := h.Shell.Run(ctx, fmt.Sprintf(`
set -e
umask 022
f=%[1]s
t="$f.muster.new"
c=%[2]s
for to in "$f.muster" "$f"; do
	cat >"$t" <<'the end of the file'
%[3]sthe end of the file
	echo "$c  $t" | sha256sum --check --status || { echo "the file came damaged" >&2; exit 1; }
	sync "$t"
	if [ -d "$to" ] && [ ! -L "$to" ]; then mv "$to" "$to.aside.$$"; fi
	mv -fT "$t" "$to"
done
sync "$(dirname "$f")"
`, shell.Quoted(cmp.Or(h.File, DefaultFile)), hex.EncodeToString(sum[:]), file))
	return wrap.Errorf(err, "writing the partitions of the manager at port %s", h.GUID)
}

// Reload signals the manager.
func (h Host) Reload(ctx context.Context) error {
	script := cmp.Or(h.Signal, DefaultSignal)
	if h.Script != nil {
		var err error
		if script, err = h.Script(); err != nil {
			return fmt.Errorf("signalling the manager at port %s: %w", h.GUID, err)
		}
	}
	if _, err := h.Shell.Run(ctx, script+"\n"); err != nil {
		return fmt.Errorf("signalling the manager at port %s, which may not run: %w", h.GUID, err)
	}
	return nil
}

// Log reads what is new in the manager's log.
func (h Host) Log(ctx context.Context, from int64) (text string, size int64, err error) {
	out, err := h.Shell.Run(ctx, fmt.Sprintf(`
f=%s
from=%d
c=$(wc -c <"$f") || exit 1
[ "$from" -le "$c" ] || from=0
echo "$c"
if [ "$from" -ge 0 ]; then tail -c +$((from + 1)) "$f" | head -c %d; fi
`, shell.Quoted(cmp.Or(h.Logs, DefaultLog)), from, mostLog))
	if err != nil {
		return "", 0, fmt.Errorf("the log of the manager at port %s: %w", h.GUID, err)
	}
	head, rest, _ := strings.Cut(string(out), "\n")
	if size, err = strconv.ParseInt(strings.TrimSpace(head), 10, 64); err != nil {
		return "", 0, fmt.Errorf("the log of the manager at port %s: %q is no size", h.GUID, head)
	}
	return rest, size, nil
}

var (
	troubleLine = pattern.New(`(?m)^.*(?:PARSE ERROR|in error; retrying|ERR 05).*$`)
	sweptLine   = pattern.New(`(?mi)(?:-> SUBNET UP|errors during initialization)\s*$`)
)

// trouble is the first line of a manager's log that says that partitions are not as its file has them; "" if none does.
func trouble(log string) string { return strings.TrimSpace(troubleLine.Regexp().FindString(log)) }

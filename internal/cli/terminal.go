package cli

import (
	"os"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	apiv1 "muster/api/v1"
)

// colour is a basic one, which every terminal's theme knows.
type colour ansi.BasicColor

const (
	plain  = colour(0)
	red    = colour(ansi.Red)
	green  = colour(ansi.Green)
	yellow = colour(ansi.Yellow)
	grey   = colour(ansi.BrightBlack)
)

// terminal is the descriptor of a stream that is a terminal.
func terminal(stream any) (fd int, is bool) {
	if s, is := stream.(*screen); is && s != nil {
		stream = s.stream
	}
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}

// live says whether what was written to a stream can be written over.
func live(w *screen) bool {
	_, is := terminal(w)
	return is && os.Getenv("TERM") != "dumb"
}

// paint colours a text if w shows colours and the user wants them (https://no-color.org).
func (a *app) paint(w *screen, c colour, text string) shown {
	if c == plain || text == "" || os.Getenv("NO_COLOR") != "" || !live(w) {
		return cell(text)
	}
	return coloured(c, text)
}

// phaseColour: green is well, red needs a look, yellow is on its way.
func phaseColour(p apiv1.Phase) colour {
	switch p {
	case apiv1.Ready, apiv1.Available, apiv1.InUse, apiv1.Reserved, apiv1.Saved:
		return green
	case apiv1.Failed, apiv1.Quarantined, apiv1.Degraded:
		return red
	case apiv1.Gone, apiv1.Deleted, apiv1.Removed, apiv1.Maintenance, apiv1.Paused:
		return grey
	}
	return yellow
}

// size of the terminal behind w; a common one where it is not known.
func size(w *screen) (width, height int) {
	if fd, is := terminal(w); is {
		if width, height, err := term.GetSize(fd); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}

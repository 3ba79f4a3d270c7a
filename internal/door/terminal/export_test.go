package terminal

// Shown says whether a browser shows the terminal.
func (t *Terminal) Shown() bool {
	_, alone := t.left()
	return !alone
}

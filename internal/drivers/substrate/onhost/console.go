package onhost

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// LastLine returns the last line of a file that is not blank, of at most 1 KiB.
func LastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const most = 1 << 10
	if end, err := file.Seek(0, io.SeekEnd); err == nil && end > most {
		file.Seek(-most, io.SeekEnd)
	} else {
		file.Seek(0, io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(file, most))
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "?")
}

// Package toy is a power control that is a folder of files. It is in no list: a test adds it to a copy of one, and so shows
// what a new driver takes.
package toy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/drivers/power"
)

// Factory declares the driver.
func Factory() power.Factory {
	return power.Factory{
		Scheme: "toy", Title: "a toy", Usage: "toy:FOLDER", Form: "toy:FOLDER", About: "a machine that is a file",
		Capabilities: power.Capabilities{SwitchesOff: true, SeesPower: true},
		Parse: func(rest string) (power.Control, error) {
			folder := strings.TrimPrefix(rest, ":")
			if !filepath.IsAbs(folder) {
				return nil, errors.New("write toy:FOLDER, with the folder's whole path")
			}
			return folderControl(folder), nil
		},
	}
}

type folderControl string

func (c folderControl) String() string                           { return "toy:" + string(c) }
func (folderControl) To() string                                 { return "" }
func (c folderControl) Open(power.Opening) (power.Driver, error) { return driver(c), nil }

// driver has a machine that is on while there is a file "on". Where there is a file "silent", nothing answers.
type driver string

func (d driver) file(name string) string { return filepath.Join(string(d), name) }

func (d driver) there(name string) bool {
	_, err := os.Stat(d.file(name))
	return err == nil
}

func (d driver) answers(ctx context.Context) error {
	if d.there("silent") {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (d driver) State(ctx context.Context) (power.State, error) {
	if err := d.answers(ctx); err != nil {
		return power.Unknown, err
	}
	if d.there("on") {
		return power.On, nil
	}
	return power.Off, nil
}

func (d driver) On(ctx context.Context) error {
	return errors.Join(d.answers(ctx), os.WriteFile(d.file("on"), nil, 0o600))
}

func (d driver) Off(ctx context.Context) error {
	return errors.Join(d.answers(ctx), os.RemoveAll(d.file("on")))
}

func (d driver) BootFromNetwork(ctx context.Context) error {
	return errors.Join(d.answers(ctx), os.WriteFile(d.file("network"), nil, 0o600))
}

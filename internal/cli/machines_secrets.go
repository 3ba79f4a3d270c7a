package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/drivers"
	"muster/internal/kit/files"
	"muster/internal/kit/private"
)

// namedSecrets lets root on the controller's host name files by their paths, as in "file:/etc/muster/bmc": it copies them to
// secrets.d of the data directory, from where alone the controller reads, and names the copies instead. Hosts to which a file's
// secret may be shown are those that it says, or the machines' own. Anybody else's paths go to the controller as they are, which
// refuses them.
func (a *app) namedSecrets(machines []apiv1.NewMachine) error {
	folder := filepath.Join(dataDir(), "secrets.d")
	if os.Getenv(envURL) != "" || os.Geteuid() != 0 {
		return nil
	}
	if _, err := os.Stat(folder); err != nil {
		return nil // no controller of this host's
	}
	hosts := map[string][]string{} // by path
	for _, m := range machines {
		if path, is := strings.CutPrefix(m.Credentials, "file:"); is && filepath.IsAbs(path) {
			hosts[path] = append(hosts[path], powerHost(m.Power))
		}
	}
	names := map[string]string{}
	for path, of := range hosts {
		name, err := keepSecret(folder, path, of)
		if err != nil {
			return fmt.Errorf("credentials %s: %w", path, err)
		}
		names[path] = name
		a.say("the controller reads the credentials of %s from %s", path, filepath.Join(folder, name))
	}
	for i, m := range machines {
		if name := names[strings.TrimPrefix(m.Credentials, "file:")]; name != "" {
			machines[i].Credentials = "secret:" + name
		}
	}
	return nil
}

// powerHost is whom a machine's credentials are for: its BMC, or a program of the site's.
func powerHost(control string) string {
	parsed, err := drivers.Power().Parse(control)
	if err != nil {
		return "" // the controller says what is wrong with it
	}
	return parsed.To()
}

// keepSecret copies a secret into the folder, and returns its name there. One that is there already is left with its hosts, and
// gets more.
func keepSecret(folder, path string, hosts []string) (string, error) {
	secret, err := private.Dir(filepath.Dir(path)).Secret(filepath.Base(path))
	if err != nil {
		return "", err
	}
	name := filepath.Base(path)
	there, err := private.Dir(folder).Secret(name)
	if err == nil && there.Text != secret.Text { // another's of the same name
		sum := sha256.Sum256([]byte(path))
		name += "-" + hex.EncodeToString(sum[:4])
		there, err = private.Dir(folder).Secret(name)
	}
	switch {
	case err == nil:
		secret.For = append(there.For, secret.For...)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if len(secret.For) == 0 || len(there.For) > 0 {
		secret.For = append(secret.For, hosts...)
	}
	secret.For = slices.DeleteFunc(secret.For, func(host string) bool { return host == "" })
	slices.Sort(secret.For)
	text := secret.Text + "\n"
	for _, host := range slices.Compact(secret.For) {
		text += "for " + host + "\n"
	}
	return name, files.Write(filepath.Join(folder, name), []byte(text), 0o600)
}

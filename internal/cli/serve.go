package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"muster/internal/door/web"
	"muster/internal/serve"
)

func (a *app) serve() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the controller",
		Long: `Run the controller in the foreground: the API, the lifecycle of clusters, nodes and machines, and the monitor. It needs root.
All state is in the data directory and the database; when the controller stops, nodes keep running, and the next controller
takes them over. It prints one line when it is ready, and logs to standard error.

Give the password of a PostgreSQL database in MUSTER_DB rather than --db, as every user of the host can read a process's
arguments.`,
		Example: `  muster serve
  muster serve --data /srv/muster --listen 0.0.0.0:7420
  muster serve --web 127.0.0.1:7443
  muster serve --local-hypervisor
  MUSTER_DB=postgres://muster:secret@db/muster muster serve --config site.yaml`,
		Args: cobra.NoArgs,
	}
	data := dataFlag(c)
	db := c.Flags().String("db", "",
		"a PostgreSQL database's `URL`, postgres://…, or MUSTER_DB (default: SQLite in the data directory)")
	listen := c.Flags().String("listen", "127.0.0.1:7420", "the `ADDRESS` of the API")
	door := c.Flags().String("ssh", "", "the `ADDRESS` of the SSH gateway, such as 0.0.0.0:2222 (default: it has no port)")
	name := c.Flags().String("ssh-name", "",
		"the host `NAME`, or NAME:PORT, by which people reach the gateway (default: its address)")
	site := c.Flags().String("config", "",
		"the site `FILE`: classes, prices, defaults (default: the classes local, service, metal and vm)")
	logFormat := c.Flags().String("log-format", "text", "the `FORMAT` of the log: text or json")
	var level slog.Level
	c.Flags().TextVar(&level, "log-level", slog.LevelInfo, "the `LEVEL` from which to log: debug, info, warn or error")
	metrics := c.Flags().String("metrics", "",
		"a separate `ADDRESS` for /metrics, /healthz and /readyz, without a token (default: the API's address, with a token)")
	traces := c.Flags().String("traces", "",
		"where to send traces: the `URL` of an OTLP/HTTP receiver, or a file (default: nowhere)")
	hypervisor := c.Flags().Bool("local-hypervisor", false, "enrol this host as a hypervisor, a machine of class vm")
	divide := c.Flags().StringToInt("divide", nil,
		"the virtual functions of this host's devices, `ADDRESS=NUMBER`, such as 0000:3b:00.0=8; may be repeated")
	c.Flags().Lookup("divide").DefValue = "" // users need not read that an empty list is the default
	keyFile := c.Flags().String("key-file", "",
		"the `FILE` with the key that secrets in the database are sealed with (default: site.key in the data directory, made "+
			"at the first start)")
	keyCommand := c.Flags().String("key-command", "", "a `PROGRAM` that prints that key; only root may be able to change it")
	c.MarkFlagsMutuallyExclusive("key-file", "key-command")
	web := webFlags(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		log, err := newLogger(a.err.raw(), *logFormat, level)
		if err != nil {
			return err
		}
		dir, err := filepath.Abs(*data)
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		self, err := a.self()
		if err != nil {
			return fmt.Errorf("find this program, which nodes run as their agent: %w", err)
		}
		return serve.Run(ctx, serve.Config{
			Data: dir, DB: cmp.Or(*db, os.Getenv(envDB)), Listen: *listen, Site: *site, Binary: self, Version: Version(),
			Log: log, LogFormat: *logFormat, Metrics: *metrics, Traces: *traces,
			Web: *web, SSH: *door, SSHName: *name, LocalHypervisor: *hypervisor, Divide: *divide,
			KeyFile: *keyFile, KeyCommand: *keyCommand,
			Ready: func(url string) { a.out.line("muster is ready at %s", url) },
		})
	})
}

// webFlags gives a command the door for web apps.
func webFlags(c *cobra.Command) *web.Entrance {
	w := &web.Entrance{}
	c.Flags().StringVar(&w.Listen, "web", "",
		"the `ADDRESS` of an HTTPS door to the web apps of clusters, such as 0.0.0.0:443 (default: none)")
	c.Flags().StringVar(&w.Domain, "web-domain", "localhost",
		"the `DOMAIN` that the apps' host names end in; DOMAIN:PORT if browsers use another port")
	c.Flags().StringVar(&w.Certificate, "web-cert", "",
		"a PEM `FILE` with the certificate of *.DOMAIN (default: one from the site's own CA; see muster open --ca)")
	c.Flags().StringVar(&w.Key, "web-key", "", "a PEM `FILE` with its key")
	return w
}

// dataFlag gives a command --data.
func dataFlag(c *cobra.Command) *string {
	dir := c.Flags().String("data", "", "the controller's data directory, `DIR`, or MUSTER_DATA (default: "+defaultData+")")
	_ = c.MarkFlagDirname("data")
	c.PreRun = func(*cobra.Command, []string) {
		*dir = cmp.Or(*dir, dataDir())
	}
	return dir
}

func newLogger(w io.Writer, format string, level slog.Level) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usage("--log-format must be text or json, not %q", format)
}

package v1

import "time"

// Files is a directory of a cluster.
type Files struct {
	Path    string `json:"path" doc:"of the directory, absolute and without links"`
	Items   []File `json:"items" doc:"directories first, each by name; at most 10,000"`
	Omitted int    `json:"omitted,omitempty" doc:"how many more there are, or have names that are no UTF-8"`
}

// File is an entry of a directory.
type File struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind" enum:"file,directory,link,other"`
	Directory bool      `json:"directory" doc:"it is one, or a link to one"`
	Size      int64     `json:"size" doc:"in bytes; a link has that of what it leads to"`
	Mode      string    `json:"mode" doc:"its permissions" example:"rw-r--r--"`
	Modified  time.Time `json:"modified"`
}

// FileRef is a path on a cluster, as who asks sees it from the head.
type FileRef struct {
	ClusterRef
	Path string `query:"path" doc:"absolute, or from your /home" maxLength:"4096"`
}

// WriteFileInput is what WriteFile takes, besides the file.
type WriteFileInput struct {
	FileRef
	Replace bool `query:"replace" doc:"also if there is a file already"`
}

// MoveFileInput is what MoveFile takes.
type MoveFileInput struct {
	ClusterRef
	Body struct {
		From string `json:"from" minLength:"1" maxLength:"4096"`
		To   string `json:"to" doc:"its path then, where nothing is yet" minLength:"1" maxLength:"4096"`
	}
}

// MakeDirectoryInput is what MakeDirectory takes.
type MakeDirectoryInput struct {
	ClusterRef
	Body struct {
		Path string `json:"path" doc:"of a directory that is to be, in one that is" minLength:"1" maxLength:"4096"`
	}
}

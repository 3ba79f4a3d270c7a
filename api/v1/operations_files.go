package v1

import "net/http"

// Operations on files of clusters. Each is done through the SSH gateway, in the account of who asks.
var (
	ListFiles = Op[FileRef, Files]{Endpoint{ID: "list-files", Method: http.MethodGet,
		Path:        "/v1/clusters/{cluster}/files",
		Summary:     "List a directory of a cluster, as you see it from the head; without a path, your own",
		Description: "Through the SSH gateway, as an SFTP session of the caller's, which the next requests share for a minute.",
		Tag:         "access", Action: "enter", Errors: []int{403, 404, 409}}}
	RemoveFile = Op[FileRef, Nothing]{Endpoint{ID: "remove-file", Method: http.MethodDelete,
		Path:    "/v1/clusters/{cluster}/files",
		Summary: "Delete a file of a cluster, or an empty directory",
		Tag:     "access", Action: "enter", Errors: []int{403, 404, 409}, Once: true}}
	ReadFile = Op[FileRef, Nothing]{Endpoint{ID: "read-file", Method: http.MethodGet,
		Path:        "/v1/clusters/{cluster}/files/content",
		Summary:     "Read a file of a cluster",
		Description: "The answer is the file's bytes, or those that a Range header asks for (RFC 9110, section 14).",
		Tag:         "access", Action: "enter", Errors: []int{403, 404, 409, 416}, Bytes: true}}
	WriteFile = Op[WriteFileInput, Nothing]{Endpoint{ID: "write-file", Method: http.MethodPut,
		Path:    "/v1/clusters/{cluster}/files/content",
		Summary: "Write a file of a cluster",
		Description: "The body is the file's bytes, as many as there are. Until all have come they are in a file beside, so that " +
			"the file is whole or not there; one that is replaced keeps its mode. A body of which nothing comes for 30 " +
			"seconds ends the request.",
		Tag: "access", Action: "enter", Errors: []int{403, 404, 409}, Bytes: true}}
	MoveFile = Op[MoveFileInput, Nothing]{Endpoint{ID: "move-file", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/files/move",
		Summary: "Give a file or directory of a cluster another path",
		Tag:     "access", Action: "enter", Errors: []int{403, 404, 409}, Once: true,
		Example: `{"from": "case/mesh.cgns", "to": "case/mesh-fine.cgns"}`}}
	MakeDirectory = Op[MakeDirectoryInput, Nothing]{Endpoint{ID: "make-directory", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/files/directories",
		Summary: "Make a directory on a cluster",
		Tag:     "access", Action: "enter", Errors: []int{403, 404, 409}, Once: true,
		Example: `{"path": "case/results"}`}}
)

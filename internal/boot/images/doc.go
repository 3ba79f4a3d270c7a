// Package images makes and keeps environment images: what a node boots.
//
// What enters: recipes (data: packages, files, checks), or images and root tarballs from elsewhere. What leaves: a read-only
// squashfs addressed by its SHA-256 digest, and a manifest that says what is in it and which checks prove it. The same
// squashfs serves namespaces on one host, virtual machines and diskless metal; for what boots by itself there is a kernel
// beside it, and an archive of the drivers that its first stage needs.
//
//   - Builder.Build turns a Recipe into an image folder; the same packages give the same digest.
//   - Store keeps images by name and digest, and can re-hash any of them.
//   - Accept runs an image's checks in throw-away namespaces.
//
// Building and accepting need root, as they mount and change owners; the Store doesn't. Programs used: mmdebstrap,
// mksquashfs, sqfstar and unsquashfs, zstd, runc, mount.
package images

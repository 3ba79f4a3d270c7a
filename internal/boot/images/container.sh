# container.sh SQUASHFS WORK ID < config.json: one container on a throw-away overlay of the image.
mount -t tmpfs -o mode=700 tmpfs "$2"
cd "$2"
cat > config.json
mkdir lower upper work root
mount -t squashfs -o loop,ro "$1" lower
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay root
exec runc --root "$2/runc" run "$3" < /dev/null

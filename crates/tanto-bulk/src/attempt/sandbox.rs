//! Sandboxes of packages: their mounts, and the lines that run commands in them.

mod masks;
mod template;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tanto_exec::sandbox::{Mount, MountKind, Plan, SandboxDir, WarmSandbox};
use tanto_sys::error;
use tanto_sys::fs::{dir_tree, mounts};

use self::masks::Masks;
use self::template::MountPolicy;
use super::layers::{Dependencies, InstallRoot, LayerRequest, LayerStore};
use crate::config::{Config, SandboxKind};
use crate::shell::{output, quoted, shell};

/// The sandboxes of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sandbox {
    /// Contains a directory for each client.
    dir: PathBuf,
    /// The path of Tanto itself.
    program: String,
    kind: SandboxKind,
    as_user: bool,
    /// The package tree, as packages see it.
    pkgsrc: PathBuf,
    /// Mounts of all packages.
    base: Vec<Mount>,
    /// Read-only mounts of all scans.
    scan_base: Vec<Mount>,
    /// Directories that fill an empty prefix and its database.
    kit: Vec<(PathBuf, Vec<PathBuf>)>,
    logs: String,
    wrkobjdir: String,
    prepare_chroot: String,
    /// Layers of dependencies, if they are used.
    layers: Option<LayerStore>,
}

/// Options of a command in a sandbox.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StageAccess {
    /// The first command of a package: creates the sandbox.
    pub first: bool,
    pub network: bool,
    /// Reports the size of all changes on success.
    pub measure: bool,
}

impl Sandbox {
    /// Prepares the data that all sandboxes share, and removes that of an earlier build. `program` is Tanto itself;
    /// paths in `hidden` are invisible in sandboxes. Must be called in a private mount namespace.
    pub fn prepare(
        config: &Config,
        kind: SandboxKind,
        program: &str,
        as_user: bool,
        hidden: &[String],
    ) -> Result<Sandbox, String> {
        let shared = Shared::make(config, kind, as_user)?;
        let on = |overlays| Sandbox::with_template(&shared, config, program, hidden, overlays);
        let with_overlays = on(true)?;
        if kind == SandboxKind::Overlay || with_overlays.output_of(":").is_ok() {
            return Ok(with_overlays);
        }
        // Without overlay mounts, these kinds work without layers.
        on(false)
    }

    fn with_template(
        shared: &Shared,
        config: &Config,
        program: &str,
        hidden: &[String],
        overlays: bool,
    ) -> Result<Sandbox, String> {
        let Shared { dir, kind, as_user, template, masks, kit: (above, kit) } = shared;
        let (var, makes) = (dir.join("var"), Path::new(&config.state).join(MAKE_WRAPPERS));
        let read_only = read_only_mounts(config, hidden, makes);
        let mut points: Vec<PathBuf> =
            kit.iter().map(|(at, _)| at).chain(read_only.iter().map(|it| &it.at)).cloned().collect();
        // In the directory of logs, each attempt has a directory that does not exist yet.
        let mut private: Vec<PathBuf> = kit.iter().map(|(at, _)| at.clone()).collect();
        private.push(PathBuf::from(&config.wrkobjdir));
        points.extend([PathBuf::from(&config.wrkobjdir), Path::new(&config.bulklog).join(NOTHING)]);
        let policy = MountPolicy {
            root: template,
            kit: above.as_deref(),
            var: &var,
            kind: *kind,
            as_user: *as_user,
            points: &points,
            private: &private,
            masks,
            writable: true,
            overlays,
        };
        let base = policy.mounts().map_err(failed)?;
        let scan_base = MountPolicy { writable: false, ..policy }.mounts().map_err(failed)?;
        let with_read_only = |mounts: Vec<Mount>| [mounts, read_only.clone()].concat();
        let it = Sandbox {
            dir: dir.clone(),
            program: program.to_owned(),
            kind: *kind,
            as_user: *as_user,
            pkgsrc: PathBuf::from(&config.pkgsrc),
            base: with_read_only(base),
            scan_base: with_read_only(scan_base),
            kit: kit.clone(),
            logs: config.bulklog.clone(),
            wrkobjdir: config.wrkobjdir.clone(),
            prepare_chroot: config.client_prepare_chroot.clone(),
            layers: (config.layers && overlays).then(|| {
                let root =
                    InstallRoot { prefix: (&config.prefix).into(), pkgdb: (&config.pkgdb).into(), as_user: *as_user };
                LayerStore::new(Path::new(&config.state).join("layers"), root, config.layers_size.unwrap_or(0))
            }),
        };
        it.layers.as_ref().map_or(Ok(()), LayerStore::begin).map_err(failed)?;
        Ok(it)
    }

    /// Enters a sandbox once to check that it works and that the programs exist. Returns the output of the line `question`,
    /// which may fail.
    pub fn check_usable(&self, pkgsrc: &str, programs: &[&str], question: &str) -> Result<String, String> {
        let mut line = format!("cd {} || exit 1", quoted(pkgsrc));
        for program in programs {
            let name = quoted(*program);
            line += &format!("; command -v {name} >/dev/null || {{ echo {name}: not found; exit 1; }}");
        }
        self.output_of(&format!("{line}; ({question}) 2>/dev/null || :"))
            .map_err(|why| format!("cannot build in a sandbox: {why}"))
    }

    /// Runs a line in a new sandbox, before packages are built. Returns its output.
    pub fn output_of(&self, line: &str) -> Result<String, String> {
        let client = 0;
        self.begin(client, &Path::new(&self.logs).join(NOTHING), None, None).map_err(failed)?;
        let entered = output(shell(&self.inside(client, line, StageAccess { first: true, ..StageAccess::default() })));
        let left = output(shell(&self.leave(client)));
        left.and(entered)
    }

    pub fn place(&self, client: usize) -> SandboxDir {
        SandboxDir::new(self.dir.join((client + 1).to_string()))
    }

    /// Returns the directory where a package leaves its work log and its binary package.
    pub fn out(&self, client: usize) -> PathBuf {
        self.place(client).dir().join("out")
    }

    /// Returns the mounts of a package, without its dependencies. It sees its client's output directory at `attempt_dir`.
    /// `memory`: bytes of scratch memory; `None`: changes are on the disk. `tree`: another package tree than that of the
    /// configuration.
    pub fn plan(&self, client: usize, attempt_dir: &Path, memory: Option<u64>, tree: Option<&Path>) -> Plan {
        let mut mounts = self.base.clone();
        if let Some(tree) = tree {
            let shown = mounts.iter_mut().filter(|it| it.at == self.pkgsrc);
            shown.for_each(|mount| mount.kind = MountKind::ReadOnly(tree.to_owned()));
        }
        for (at, kit) in &self.kit {
            let kind = match self.kind {
                // Layers of dependencies are above.
                _ if self.layers.is_some() => MountKind::Overlay(self.or_nothing(kit)),
                _ if kit.is_empty() => MountKind::Private(0o755),
                SandboxKind::Overlay => MountKind::Overlay(kit.clone()),
                SandboxKind::Bind | SandboxKind::Tmpfs => MountKind::Copy(kit.clone()),
            };
            mounts.push(Mount { at: at.clone(), kind });
        }
        mounts.push(Mount { at: PathBuf::from(&self.wrkobjdir), kind: MountKind::Private(0o1777) });
        mounts.push(Mount { at: attempt_dir.to_owned(), kind: MountKind::Writable(self.out(client)) });
        sorted(&mut mounts);
        Plan { mounts, memory, as_user: self.as_user, read_only: false }
    }

    /// Returns the mounts of a scan, which may write in these directories.
    fn scan_plan(&self, written: &[PathBuf]) -> Plan {
        let mut mounts = self.scan_base.clone();
        for (at, kit) in &self.kit {
            let kind = kit.first().map_or(MountKind::Hidden, |kit| MountKind::ReadOnly(kit.clone()));
            mounts.push(Mount { at: at.clone(), kind });
        }
        mounts.extend(written.iter().map(|dir| Mount { at: dir.clone(), kind: MountKind::Writable(dir.clone()) }));
        sorted(&mut mounts);
        Plan { mounts, memory: None, as_user: self.as_user, read_only: true }
    }

    /// Opens a warm sandbox for scans, which may write in these directories.
    pub fn open_for_scan(&self, number: usize, written: &[PathBuf]) -> io::Result<WarmSandbox> {
        let place = SandboxDir::new(self.dir.join(format!("scan-{}", number + 1)));
        place.prepare(&self.scan_plan(written))?;
        let mut command = Command::new(&self.program);
        command.args(["bulk", "enter", "--keep"]).arg(format!("--place={}", place.dir().display()));
        if !self.prepare_chroot.is_empty() {
            command.arg(format!("--hook={}", self.prepare_chroot));
        }
        WarmSandbox::open(command, place)
    }

    /// An overlay needs at least one directory.
    fn or_nothing(&self, kit: &[PathBuf]) -> Vec<PathBuf> {
        if kit.is_empty() { vec![self.dir.join(NOTHING)] } else { kit.to_vec() }
    }

    /// Writes the plan of a package, for its first command.
    pub fn begin(&self, client: usize, attempt_dir: &Path, memory: Option<u64>, tree: Option<&Path>) -> io::Result<()> {
        let out = self.out(client);
        dir_tree::remove(&out)?;
        fs::create_dir_all(&out)?;
        let allow = |path: &Path, mode| fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode));
        allow(&out, 0o1777)?;
        // The unprivileged user writes it too.
        let work_log = out.join(WORK_LOG);
        fs::File::create(&work_log)?;
        allow(&work_log, 0o666)?;
        self.place(client).prepare(&self.plan(client, attempt_dir, memory, tree))
    }

    /// Moves regular files that a package left to a directory, except the one with this name. Ignores links, which a
    /// package could have planted.
    pub fn keep_output_files(&self, client: usize, dir: &Path, file: &str) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        for entry in fs::read_dir(self.out(client))? {
            let entry = entry?;
            let is_new = !dir.join(entry.file_name()).exists() && entry.file_name() != file;
            if entry.file_type()?.is_file() && is_new {
                let to = dir.join(entry.file_name());
                fs::rename(entry.path(), &to).or_else(|_| fs::copy(entry.path(), &to).map(drop))?;
            }
        }
        Ok(())
    }

    /// Returns the line that runs `line` in the sandbox; empty: only mounts it.
    pub fn inside(&self, client: usize, line: &str, access: StageAccess) -> String {
        let mut entry = self.enter(client);
        if access.first {
            entry += " --fresh";
            if !self.prepare_chroot.is_empty() {
                let _ = write!(entry, " --hook={}", quoted(&self.prepare_chroot));
            }
        }
        if access.network {
            entry += " --network";
        }
        if access.measure {
            entry += " --measure";
        }
        if line.is_empty() { entry } else { format!("{entry} -- {}", quoted(line)) }
    }

    /// Returns the line that installs the dependencies in a sandbox: as layers or, where that is impossible, with
    /// `line`, which calls pkg_add.
    pub fn provide(&self, client: usize, dependencies: Dependencies, line: &str) -> String {
        let Some(store) = &self.layers else { return self.inside(client, line, StageAccess::default()) };
        let file = self.place(client).dir().join("needs");
        match (LayerRequest { store: store.clone(), dependencies }).write(&file) {
            Ok(()) => format!("{} --needs={} -- {}", self.enter(client), quoted(file.to_string_lossy()), quoted(line)),
            // The command reports the same error.
            Err(_) => self.inside(client, line, StageAccess::default()),
        }
    }

    /// Returns the line that removes a sandbox.
    pub fn leave(&self, client: usize) -> String {
        self.enter(client) + " --leave"
    }

    fn enter(&self, client: usize) -> String {
        let place = self.place(client);
        format!("{} bulk enter --place={}", quoted(&self.program), quoted(place.dir().to_string_lossy()))
    }
}

/// Data that all sandboxes share.
struct Shared {
    dir: PathBuf,
    kind: SandboxKind,
    as_user: bool,
    template: PathBuf,
    masks: Masks,
    kit: Kit,
}

impl Shared {
    /// Creates it, replacing that of an earlier build.
    fn make(config: &Config, kind: SandboxKind, as_user: bool) -> Result<Shared, String> {
        let dir = Path::new(&config.state).join("clients");
        if kind == SandboxKind::Tmpfs {
            // It is mounted if this process has made it.
            let _ = mounts::unmount(&dir.join(TEMPLATE));
        }
        dir_tree::remove(&dir).map_err(failed)?;
        fs::create_dir_all(dir.join(NOTHING)).map_err(failed)?;
        template::make_var(Path::new(&config.sandbox_root), &dir.join("var")).map_err(failed)?;
        let template = match kind {
            SandboxKind::Tmpfs => copy_template(Path::new(&config.sandbox_root), &dir.join(TEMPLATE))?,
            SandboxKind::Bind | SandboxKind::Overlay => PathBuf::from(&config.sandbox_root),
        };
        let masks = Masks::make(&template, &dir.join("masks"), kind == SandboxKind::Overlay).map_err(failed)?;
        let kit = kit(config, &dir, as_user)?;
        let makes = Path::new(&config.state).join(MAKE_WRAPPERS);
        for path in [Path::new(&config.packages), Path::new(&config.distdir), &makes] {
            fs::create_dir_all(path).map_err(failed)?;
        }
        Ok(Shared { dir, kind, as_user, template, masks, kit })
    }
}

fn failed(error: io::Error) -> String {
    format!("the sandbox: {}", String::from_utf8_lossy(&error::text(&error)))
}

/// The work log, in the attempt's directory.
const WORK_LOG: &str = "work.log";
/// An empty directory.
const NOTHING: &str = "nothing";
/// A copy of the template in memory.
const TEMPLATE: &str = "template";
/// The directory of make wrappers, in the state directory.
const MAKE_WRAPPERS: &str = "makes";

/// Sorts parents before children.
fn sorted(mounts: &mut [Mount]) {
    mounts.sort_by_key(|mount| template::depth(&mount.at));
}

/// Read-only mounts besides the template.
fn read_only_mounts(config: &Config, hidden: &[String], makes: PathBuf) -> Vec<Mount> {
    let read_only = |path: &str| Mount { at: path.into(), kind: MountKind::ReadOnly(path.into()) };
    let hidden = hidden.iter().filter(|path| !path.is_empty());
    let mut mounts: Vec<Mount> = hidden.map(|path| Mount { at: path.into(), kind: MountKind::Hidden }).collect();
    let tree = MountKind::ReadOnly(config.tree_dir().into());
    mounts.push(Mount { at: (&config.pkgsrc).into(), kind: tree });
    mounts.extend([&config.packages, &config.distdir].map(|path| read_only(path)));
    mounts.push(Mount { at: makes.clone(), kind: MountKind::ReadOnly(makes) });
    // The file of MAKECONF can be anywhere.
    let settings = config.makeconf().filter(|path| path.is_file());
    mounts.extend(settings.map(|path| read_only(&path.to_string_lossy())));
    mounts
}

/// The bootstrap kit as directories: those above the template's, and those of the prefix and its database.
type Kit = (Option<PathBuf>, Vec<(PathBuf, Vec<PathBuf>)>);

fn kit(config: &Config, dir: &Path, as_user: bool) -> Result<Kit, String> {
    let kit = Path::new(&config.bootstrapkit);
    let (prefix, pkgdb) = (PathBuf::from(&config.prefix), PathBuf::from(&config.pkgdb));
    let mut places = vec![prefix.clone()];
    places.extend((!pkgdb.starts_with(&prefix)).then_some(pkgdb));
    if config.bootstrapkit.is_empty() {
        return Ok((None, places.into_iter().map(|place| (place, Vec::new())).collect()));
    }
    if kit.is_dir() {
        // It contains the prefix.
        let of = |place: PathBuf| (place.clone(), (place == prefix).then(|| kit.to_owned()).into_iter().collect());
        return Ok((None, places.into_iter().map(of).collect()));
    }
    let unpacked = dir.join("kit");
    fs::create_dir_all(&unpacked).map_err(|error| format!("{}: {error}", unpacked.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(kit).arg("-C").arg(&unpacked);
    if as_user {
        tar.arg("--no-same-owner");
    }
    let unusable = |why: &str| {
        let kit = kit.display();
        format!("cannot unpack the bootstrap kit {kit}: {why}; 'bootstrapkit' in the configuration names it")
    };
    if !kit.exists() {
        return Err(unusable("no such file"));
    }
    output(tar).map_err(|why| unusable(why.lines().find(|line| !line.is_empty()).unwrap_or("tar failed")))?;
    let inside = |place: &Path| unpacked.join(place.strip_prefix("/").unwrap_or(place));
    let of = |place: PathBuf| {
        let from = inside(&place);
        (place, Some(from).filter(|from| from.is_dir()).into_iter().collect())
    };
    Ok((Some(unpacked.clone()), places.into_iter().map(of).collect()))
}

/// Copies the template into memory. Returns the path of the copy.
fn copy_template(template: &Path, to: &Path) -> Result<PathBuf, String> {
    if template == Path::new("/") {
        return Err("sandbox = \"tmpfs\" copies its template into memory: name a small one with sandbox_root".into());
    }
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    mounts::mount_virtual(mounts::VirtualFs::Tmpfs, to, "mode=755").map_err(failed)?;
    dir_tree::copy(template, to).map_err(failed)?;
    Ok(to.to_owned())
}

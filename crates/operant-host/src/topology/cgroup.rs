//! Limits of control groups for this process: CPU time and memory.
//!
//! `proc/self/cgroup` names the process's group in every hierarchy, `proc/self/mountinfo` where the hierarchies are mounted.
//! A limit of a group applies to all groups below it, so every group from the process's own up to the mount is read, and the
//! tightest limit wins. Version 2 has `cpu.max` and `memory.max`, version 1 `cpu.cfs_quota_us` over `cpu.cfs_period_us` and
//! `memory.limit_in_bytes`; if a machine mounts both, both are read. The format is in cgroups(7) and proc(5).

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A limit, and the file that sets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit<T> {
    pub value: T,
    /// The file, as the process sees it.
    pub file: PathBuf,
}

/// The limits of control groups for this process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// CPU time, in CPUs: 1.5 is one and a half.
    pub cpu: Option<Limit<f64>>,
    /// Memory, in bytes.
    pub memory: Option<Limit<u64>>,
    /// Bytes left in the fullest of the groups with a limit; memory that can be reclaimed at once counts as left.
    pub memory_left: Option<u64>,
}

/// A memory limit of at least this many bytes means none: version 1 writes "no limit" as the largest number of pages.
const NO_MEMORY_LIMIT: u64 = 1 << 60;

/// One hierarchy as it is mounted.
struct Mount {
    /// The group that the mount shows as its root.
    group: String,
    /// The mount point.
    at: PathBuf,
    /// None for version 2, else the controllers of version 1.
    controllers: Option<Vec<String>>,
}

impl Limits {
    /// The limits of the process described below `root`.
    pub(crate) fn below(root: &Path) -> Self {
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        let mut limits = Limits::default();
        for mount in mounts.lines().filter_map(mount) {
            let Some(group) = group_in(&groups, mount.controllers.as_deref()) else { continue };
            let has = |controller: &str| {
                mount.controllers.as_ref().is_none_or(|names| names.iter().any(|name| name == controller))
            };
            for directory in path_to_root(&mount, group) {
                let inside = root.join(directory.strip_prefix("/").unwrap_or(&directory));
                let read = |name: &str| fs::read_to_string(inside.join(name)).ok();
                let (cpu, memory) = match mount.controllers {
                    None => ("cpu.max", "memory.max"),
                    Some(_) => ("cpu.cfs_quota_us", "memory.limit_in_bytes"),
                };
                if has("cpu") {
                    let value = match mount.controllers {
                        None => read(cpu).and_then(|text| cpu_max(&text)),
                        Some(_) => quota(read(cpu), read("cpu.cfs_period_us")),
                    };
                    tighten(&mut limits.cpu, value, || directory.join(cpu));
                }
                if has("memory") {
                    let value = read(memory).and_then(|text| text.trim().parse().ok());
                    let value = value.filter(|&bytes: &u64| bytes > 0 && bytes < NO_MEMORY_LIMIT);
                    let used = match mount.controllers {
                        None => read("memory.current"),
                        Some(_) => read("memory.usage_in_bytes"),
                    };
                    let used = used.and_then(|text| text.trim().parse().ok()).unwrap_or(0u64);
                    let kept = used.saturating_sub(read("memory.stat").map_or(0, |text| file_cache(&text)));
                    let left = value.map(|value| value.saturating_sub(kept));
                    limits.memory_left = limits.memory_left.into_iter().chain(left).min();
                    tighten(&mut limits.memory, value, || directory.join(memory));
                }
            }
        }
        limits
    }
}

/// Bytes of inactive file cache, of the group and the groups below it.
fn file_cache(stat: &str) -> u64 {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok())
    };
    // Version 1 counts the groups below apart.
    value("total_inactive_file").or_else(|| value("inactive_file")).unwrap_or(0)
}

fn tighten<T: PartialOrd>(limit: &mut Option<Limit<T>>, value: Option<T>, file: impl FnOnce() -> PathBuf) {
    if let Some(value) = value
        && limit.as_ref().is_none_or(|limit| value < limit.value)
    {
        *limit = Some(Limit { value, file: file() });
    }
}

/// A line of `mountinfo`: `31 23 0:28 ROOT POINT OPTIONS [TAGS..] - TYPE SOURCE OPTIONS`; None where it is no hierarchy.
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (group, at) = (plain(place.next()?), PathBuf::from(plain(place.next()?)));
    let mut kind = kind.split(' ');
    let controllers = match kind.next()? {
        "cgroup2" => None,
        "cgroup" => Some(kind.nth(1)?.split(',').map(str::to_owned).collect()),
        _ => return None,
    };
    Some(Mount { group, at, controllers })
}

/// Undoes the octal escapes (`\040`) of spaces and the like.
fn plain(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = after.first_chunk::<3>().filter(|_| byte == b'\\');
        let code = escaped
            .and_then(|digits| str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// The process's group in a hierarchy, from lines `NUMBER:CONTROLLERS:GROUP`; version 2 is the line without controllers.
fn group_in<'a>(groups: &'a str, controllers: Option<&[String]>) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (names, group) = line.split_once(':')?.1.split_once(':')?;
        let same = match controllers {
            None => names.is_empty(),
            Some(controllers) => {
                !names.is_empty()
                    && names.split(',').all(|name| controllers.iter().any(|known| known == name))
            }
        };
        same.then_some(group)
    })
}

/// The directories of a group and of all above it that the mount shows, the group's own first.
fn path_to_root(mount: &Mount, group: &str) -> Vec<PathBuf> {
    // Without a cgroup namespace, a container's group is named from the machine's root, but only its own part is mounted. A
    // group outside of the namespace begins with `/..`: only the mount itself is visible.
    let inside = Path::new(group).strip_prefix(&mount.group).unwrap_or(Path::new(""));
    let names: Vec<_> = inside.components().filter(|part| *part != Component::RootDir).collect();
    let seen = names.iter().all(|part| matches!(part, Component::Normal(_)));
    let names = if seen { &names[..] } else { &[] };
    (0..=names.len()).rev().map(|depth| mount.at.join(names[..depth].iter().collect::<PathBuf>())).collect()
}

/// `150000 100000` is 1.5 CPUs; `max 100000` none.
fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    ratio(words.next()?.parse().ok()?, words.next()?.parse().ok()?)
}

/// A quota of -1 means none.
fn quota(quota: Option<String>, period: Option<String>) -> Option<f64> {
    ratio(quota?.trim().parse().ok()?, period?.trim().parse().ok()?)
}

fn ratio(quota: u64, period: u64) -> Option<f64> {
    // Microseconds, far below the 2^53 that a double counts exactly.
    #[allow(clippy::cast_precision_loss)]
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, text).expect("a file");
        }
        root
    }

    /// A limit and its file.
    type Shown<T> = Option<(T, String)>;

    fn limits(files: &[(&str, &str)]) -> (Shown<f64>, Shown<u64>) {
        let root = tree(files);
        let Limits { cpu, memory, .. } = Limits::below(root.path());
        let shown = |file: PathBuf| file.display().to_string();
        (cpu.map(|it| (it.value, shown(it.file))), memory.map(|it| (it.value, shown(it.file))))
    }

    const UNIFIED: &str = "22 1 0:20 / /proc rw - proc proc rw\n\
        30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_tightest_group_on_the_way_up_wins() {
        let (cpu, memory) = limits(&[
            ("proc/self/cgroup", "0::/user.slice/session 1.scope\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/user.slice/session 1.scope/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/user.slice/session 1.scope/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "75000 50000\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "1073741824\n"),
            // Of another group.
            ("sys/fs/cgroup/system.slice/cpu.max", "1000 100000\n"),
        ]);
        assert_eq!(cpu, Some((1.5, "/sys/fs/cgroup/user.slice/cpu.max".to_owned())));
        assert_eq!(memory, Some((1 << 30, "/sys/fs/cgroup/user.slice/memory.max".to_owned())));
    }

    #[test]
    fn a_namespace_shows_its_own_root() {
        for group in ["/", "/../../other"] {
            let (cpu, memory) = limits(&[
                ("proc/self/cgroup", &format!("0::{group}\n")),
                ("proc/self/mountinfo", UNIFIED),
                ("sys/fs/cgroup/cpu.max", "50000 100000\n"),
                ("sys/fs/cgroup/memory.max", "268435456\n"),
                ("sys/other/cpu.max", "1 100000\n"),
            ]);
            assert_eq!(cpu, Some((0.5, "/sys/fs/cgroup/cpu.max".to_owned())), "{group}");
            assert_eq!(memory.map(|(bytes, _)| bytes), Some(256 << 20), "{group}");
        }
    }

    #[test]
    fn version_1_with_the_container_alone_mounted() {
        let (cpu, memory) = limits(&[
            (
                "proc/self/cgroup",
                "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n",
            ),
            (
                "proc/self/mountinfo",
                "33 32 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                 34 32 0:30 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                 35 32 0:31 /docker/ab /sys/fs/cgroup/systemd ro - cgroup cgroup rw,name=systemd\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ]);
        assert_eq!(cpu, Some((2.5, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us".to_owned())));
        assert_eq!(memory, Some((512 << 20, "/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned())));
    }

    #[test]
    fn both_versions_side_by_side() {
        let files = |quota: &'static str| {
            limits(&[
                ("proc/self/cgroup", "2:cpu:/a\n0::/b\n"),
                (
                    "proc/self/mountinfo",
                    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                ),
                ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", quota),
                ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/unified/b/cpu.max", "300000 100000\n"),
            ])
        };
        assert_eq!(files("200000\n").0.map(|(cpus, _)| cpus), Some(2.0));
        assert_eq!(files("-1\n").0.map(|(cpus, _)| cpus), Some(3.0));
    }

    #[test]
    fn what_the_fullest_group_has_left() {
        let left = |used: &str, stat: &str| {
            let root = tree(&[
                ("proc/self/cgroup", "0::/a/b\n"),
                ("proc/self/mountinfo", UNIFIED),
                ("sys/fs/cgroup/a/memory.max", "1000\n"),
                ("sys/fs/cgroup/a/memory.current", used),
                ("sys/fs/cgroup/a/memory.stat", stat),
                ("sys/fs/cgroup/a/b/memory.max", "5000\n"),
            ]);
            Limits::below(root.path()).memory_left
        };
        assert_eq!(left("300\n", "anon 100\ninactive_file 150\n"), Some(850));
        assert_eq!(left("1200\n", ""), Some(0));
        assert_eq!(left("", ""), Some(1000));
        assert_eq!(Limits::below(tree(&[]).path()).memory_left, None);
    }

    #[test]
    fn without_limits_there_are_none() {
        let none = (None, None);
        assert_eq!(limits(&[]), none);
        assert_eq!(limits(&[("proc/self/cgroup", "0::/\n")]), none);
        let unlimited = [
            ("proc/self/cgroup", "4:memory:/\n0::/\nnonsense\n"),
            (
                "proc/self/mountinfo",
                "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\nnonsense\n\
                 34 32 0:30 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/unified/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(limits(&unlimited), none);
        for bad in ["", "0 100000", "100000 0", "-5 100000", "100000", "x y"] {
            assert_eq!(cpu_max(bad), None, "{bad}");
        }
    }

    #[test]
    fn escapes_of_mount_points() {
        assert_eq!(plain(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(plain(r"/a\04"), r"/a\04");
        assert_eq!(plain(r"/a\999"), r"/a\999");
    }
}

//! The tasks (the package's environments), with their grid sizes and time limits.

/// Maximum number of extra values in a state, besides the grid and the agent.
pub const EXTRA: usize = 8;

/// The kinds of tasks: each has its layout and its success rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Empty { random: bool },
    FourRooms,
    DoorKey,
    Unlock,
    UnlockPickup,
    BlockedUnlockPickup,
    ObstructedMaze,
    KeyCorridor,
    MultiRoom { rooms: usize, smallest: u32, largest: u32 },
    LavaGap,
    Crossing { lava: bool },
    DistShift,
    Memory { random: bool },
    DynamicObstacles { balls: usize },
    RedBlueDoors,
    GoToDoor,
    Fetch,
    PutNear,
    LockedRoom,
}

/// The package's names of the colours, by number.
const COLOUR_NAMES: [&str; 6] = ["red", "green", "blue", "purple", "yellow", "grey"];

/// A task.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// The environment's name without the prefix of the family.
    pub name: &'static str,
    /// The package's id without `MiniGrid-`.
    pub id: &'static str,
    pub kind: Kind,
    pub width: u32,
    pub height: u32,
    /// Time limit in steps.
    pub limit: u32,
    /// The name of the base task if this task is another size of it.
    pub variant_of: Option<&'static str>,
}

const fn task(
    name: &'static str,
    id: &'static str,
    kind: Kind,
    size: [u32; 2],
    limit: u32,
    variant_of: &'static str,
) -> Task {
    let variant_of = if variant_of.is_empty() { None } else { Some(variant_of) };
    Task { name, id, kind, width: size[0], height: size[1], limit, variant_of }
}

const fn rooms(rooms: usize, smallest: u32, largest: u32) -> Kind {
    Kind::MultiRoom { rooms, smallest, largest }
}

const fn obstacles(balls: usize) -> Kind {
    Kind::DynamicObstacles { balls }
}

pub static TASKS: [Task; 37] = {
    use Kind::*;
    const FIXED: Kind = Empty { random: false };
    const MEMORY: Kind = Memory { random: false };
    const LAVA: Kind = Crossing { lava: true };
    const WALLS: Kind = Crossing { lava: false };
    const OBSTACLES: &str = "dynamic_obstacles_8x8";
    [
        task("empty_5x5", "Empty-5x5-v0", FIXED, [5, 5], 100, "empty_8x8"),
        task("empty_8x8", "Empty-8x8-v0", FIXED, [8, 8], 256, ""),
        task("empty_random_5x5", "Empty-Random-5x5-v0", Empty { random: true }, [5, 5], 100, ""),
        task("fourrooms", "FourRooms-v0", FourRooms, [19, 19], 100, ""),
        task("doorkey_5x5", "DoorKey-5x5-v0", DoorKey, [5, 5], 250, "doorkey_8x8"),
        task("doorkey_6x6", "DoorKey-6x6-v0", DoorKey, [6, 6], 360, "doorkey_8x8"),
        task("doorkey_8x8", "DoorKey-8x8-v0", DoorKey, [8, 8], 640, ""),
        task("doorkey_16x16", "DoorKey-16x16-v0", DoorKey, [16, 16], 2560, "doorkey_8x8"),
        task("unlock", "Unlock-v0", Unlock, [11, 6], 288, ""),
        task("unlockpickup", "UnlockPickup-v0", UnlockPickup, [11, 6], 288, ""),
        task("blockedunlockpickup", "BlockedUnlockPickup-v0", BlockedUnlockPickup, [11, 6], 576, ""),
        task("obstructedmaze_1dl", "ObstructedMaze-1Dl-v0", ObstructedMaze, [11, 6], 288, ""),
        task("keycorridor_s3r1", "KeyCorridorS3R1-v0", KeyCorridor, [7, 3], 270, "keycorridor_s3r3"),
        task("keycorridor_s3r2", "KeyCorridorS3R2-v0", KeyCorridor, [7, 5], 270, "keycorridor_s3r3"),
        task("keycorridor_s3r3", "KeyCorridorS3R3-v0", KeyCorridor, [7, 7], 270, ""),
        task("multiroom_n2_s4", "MultiRoom-N2-S4-v0", rooms(2, 4, 4), [25, 25], 40, "multiroom_n4_s5"),
        task("multiroom_n4_s5", "MultiRoom-N4-S5-v0", rooms(6, 4, 5), [25, 25], 120, ""),
        task("multiroom_n4_s5_v1", "MultiRoom-N4-S5-v1", rooms(4, 4, 5), [25, 25], 80, "multiroom_n4_s5"),
        task("lavagap_s5", "LavaGapS5-v0", LavaGap, [5, 5], 100, "lavagap_s7"),
        task("lavagap_s6", "LavaGapS6-v0", LavaGap, [6, 6], 144, "lavagap_s7"),
        task("lavagap_s7", "LavaGapS7-v0", LavaGap, [7, 7], 196, ""),
        task("lavacrossing_s9n1", "LavaCrossingS9N1-v0", LAVA, [9, 9], 324, ""),
        task("simplecrossing_s9n1", "SimpleCrossingS9N1-v0", WALLS, [9, 9], 324, ""),
        task("distshift1", "DistShift1-v0", DistShift, [9, 7], 252, ""),
        task("memory_s7", "MemoryS7-v0", MEMORY, [7, 7], 245, "memory_s13"),
        task("memory_s9", "MemoryS9-v0", MEMORY, [9, 9], 405, "memory_s13"),
        task("memory_s11", "MemoryS11-v0", MEMORY, [11, 11], 605, "memory_s13"),
        task("memory_s13", "MemoryS13-v0", MEMORY, [13, 13], 845, ""),
        task("memory_s13_random", "MemoryS13Random-v0", Memory { random: true }, [13, 13], 845, "memory_s13"),
        task("dynamic_obstacles_5x5", "Dynamic-Obstacles-5x5-v0", obstacles(2), [5, 5], 100, OBSTACLES),
        task("dynamic_obstacles_6x6", "Dynamic-Obstacles-6x6-v0", obstacles(3), [6, 6], 144, OBSTACLES),
        task(OBSTACLES, "Dynamic-Obstacles-8x8-v0", obstacles(4), [8, 8], 256, ""),
        task("redbluedoors_6x6", "RedBlueDoors-6x6-v0", RedBlueDoors, [12, 6], 720, ""),
        task("gotodoor_5x5", "GoToDoor-5x5-v0", GoToDoor, [5, 5], 100, ""),
        task("fetch_5x5_n2", "Fetch-5x5-N2-v0", Fetch, [5, 5], 125, ""),
        task("putnear_6x6_n2", "PutNear-6x6-N2-v0", PutNear, [6, 6], 30, ""),
        task("lockedroom", "LockedRoom-v0", LockedRoom, [19, 19], 190, ""),
    ]
};

impl Task {
    /// Number of cells of the grid.
    pub fn cells(&self) -> usize {
        (self.width * self.height) as usize
    }

    /// Whether the agent sees through walls and doors.
    pub fn see_through(&self) -> bool {
        use Kind::*;
        matches!(self.kind, Empty { .. } | DistShift | DynamicObstacles { .. } | GoToDoor | Fetch | PutNear)
    }

    /// The exclusive upper bounds of the mission's numbers, which are the first extra values of the state. Empty if the
    /// mission is always the same.
    pub fn mission(&self) -> &'static [u32] {
        match self.kind {
            Kind::UnlockPickup | Kind::BlockedUnlockPickup | Kind::KeyCorridor | Kind::GoToDoor => &[6],
            Kind::LockedRoom => &[6, 6],
            // Syntax, colour, type.
            Kind::Fetch => &[5, 6, 7],
            // Colour and type of the object to move, and of the one to put it next to.
            Kind::PutNear => &[6, 8, 6, 8],
            _ => &[],
        }
    }

    /// What the mission's numbers mean; empty if the mission is always the same.
    pub fn mission_names(&self) -> &'static str {
        match self.kind {
            Kind::UnlockPickup | Kind::BlockedUnlockPickup => "colour of the box",
            Kind::KeyCorridor => "colour of the ball",
            Kind::GoToDoor => "colour of the door",
            Kind::LockedRoom => "colour of the locked door and its key, colour of the room with the key",
            Kind::Fetch => "wording (0 to 4, without effect), colour and object to pick up",
            Kind::PutNear => "colour and object to move, colour and object to put it next to",
            _ => "",
        }
    }

    /// The mission in words from its numbers; empty if the mission is always the same.
    pub fn mission_text(&self, numbers: &[u32]) -> String {
        let colour = |number: u32| COLOUR_NAMES[number.min(5) as usize];
        let thing = |colour_of: u32, kind: u32| {
            let kind = ["key", "ball", "box"].get(kind.wrapping_sub(5) as usize).copied().unwrap_or("object");
            format!("{} {kind}", colour(colour_of))
        };
        match (self.kind, numbers) {
            (Kind::GoToDoor, &[door]) => format!("go to the {} door", colour(door)),
            (Kind::KeyCorridor, &[ball]) => format!("pick up the {} ball", colour(ball)),
            (Kind::UnlockPickup | Kind::BlockedUnlockPickup, &[target]) => {
                format!("pick up the {} box", colour(target))
            }
            (Kind::LockedRoom, &[door, room]) => {
                format!("get the {} key from the {} room", colour(door), colour(room))
            }
            (Kind::Fetch, &[_, of, kind]) => format!("fetch a {}", thing(of, kind)),
            (Kind::PutNear, &[of, kind, near, near_kind]) => {
                format!("put the {} near the {}", thing(of, kind), thing(near, near_kind))
            }
            _ => String::new(),
        }
    }

    /// Number of extra values in a state, including those of the mission, which come first.
    pub fn extra(&self) -> usize {
        match self.kind {
            // GoToDoor and PutNear: the target's position; Memory: the cells of success and of failure;
            // DynamicObstacles: the balls.
            Kind::GoToDoor | Kind::PutNear => self.mission().len() + 2,
            Kind::Memory { .. } => 4,
            Kind::DynamicObstacles { balls } => 2 * balls,
            _ => self.mission().len(),
        }
    }

    /// Number of choices of an action.
    pub fn actions(&self) -> usize {
        if matches!(self.kind, Kind::DynamicObstacles { .. }) { 3 } else { 7 }
    }

    /// The training preset: the number of steps depends on the task, and few steps are reused more often. A threshold is what three
    /// seeds reached (docs/results/worlds.md); tasks that were not measured have none.
    pub fn preset(&self) -> String {
        let steps = match self.kind {
            Kind::Empty { .. } | Kind::DistShift | Kind::LavaGap | Kind::Unlock => 100_000,
            Kind::DoorKey if self.width == 5 => 100_000,
            Kind::DoorKey if self.width == 16 => 5_000_000,
            Kind::MultiRoom { .. } => 2_000_000,
            Kind::DoorKey | Kind::GoToDoor => 500_000,
            Kind::KeyCorridor if self.height == 3 => 500_000,
            Kind::KeyCorridor if self.height == 5 => 2_000_000,
            Kind::KeyCorridor => 3_000_000,
            Kind::Crossing { .. } | Kind::DynamicObstacles { .. } | Kind::Fetch => 1_000_000,
            Kind::RedBlueDoors | Kind::UnlockPickup => 1_000_000,
            Kind::Memory { .. } if self.width > 7 => 10_000_000,
            Kind::PutNear | Kind::FourRooms | Kind::Memory { .. } | Kind::ObstructedMaze => 5_000_000,
            _ => 10_000_000,
        };
        let solved_at = match self.kind {
            Kind::Empty { random: true } => "solved_at = 0.95\n",
            Kind::DoorKey if self.width == 5 => "solved_at = 0.95\n",
            Kind::Memory { .. } if self.width == 7 => "solved_at = 0.95\n",
            Kind::KeyCorridor if self.height >= 5 => "solved_at = 0.9\n",
            Kind::DoorKey if self.width == 16 => "solved_at = 0.9\n",
            Kind::MultiRoom { rooms: 6, .. } => "solved_at = 0.7\n",
            Kind::ObstructedMaze => "solved_at = 0.9\n",
            Kind::FourRooms => "solved_at = 0.573\n",
            _ => "",
        };
        let ([envs, horizon, minibatches, epochs], entropy) = match steps {
            0..=100_000 => ([8, 128, 16, 10], 0.001),
            100_001..=500_000 => ([16, 128, 16, 8], 0.01),
            500_001..=1_000_000 => ([64, 64, 8, 4], 0.02),
            _ => ([64, 64, 8, 4], 0.01),
        };
        let common = include_str!("../../presets/minigrid.toml");
        let explore = include_str!("../../presets/minigrid_explore.toml");
        let own = match self.kind {
            Kind::Memory { .. } if self.width > 7 => include_str!("../../presets/minigrid_memory_large.toml"),
            Kind::Memory { .. } => include_str!("../../presets/minigrid_memory.toml"),
            Kind::KeyCorridor if self.height == 7 => explore,
            Kind::KeyCorridor if self.height == 5 => include_str!("../../presets/minigrid_keycorridor.toml"),
            Kind::DoorKey if self.width == 16 => explore,
            Kind::MultiRoom { .. } => explore,
            Kind::FourRooms => include_str!("../../presets/minigrid_fourrooms.toml"),
            Kind::ObstructedMaze => include_str!("../../presets/minigrid_obstructedmaze.toml"),
            _ => "",
        };
        if !own.is_empty() {
            return format!("{solved_at}total_timesteps = {steps}\n{own}{common}");
        }
        format!(
            "{solved_at}total_timesteps = {steps}\nnum_envs = {envs}\nnum_steps = {horizon}\n\
             num_minibatches = {minibatches}\nupdate_epochs = {epochs}\nent_coef = {entropy:?}\n{common}"
        )
    }

    /// A one-line summary, and about two lines of rules.
    pub fn text(&self) -> [&'static str; 2] {
        match self.kind {
            Kind::Empty { .. } => ["walk to the goal in an empty room", "Reach the green goal square."],
            Kind::FourRooms => [
                "walk to a goal somewhere in four connected rooms",
                "Four rooms with gaps between them; agent and goal are anywhere. Reach the goal.",
            ],
            Kind::DoorKey => [
                "take a key, open the door, reach the goal",
                "The goal is behind a locked door. Take the key, unlock the door with toggle, and reach the goal.",
            ],
            Kind::Unlock => [
                "open a locked door with its key",
                "Take the key and unlock the door to the next room with toggle.",
            ],
            Kind::UnlockPickup => [
                "unlock a door and take the box behind it",
                "Take the key, unlock the door, drop the key, and pick up the box in the next room.",
            ],
            Kind::BlockedUnlockPickup => [
                "clear a blocked door, unlock it and take the box behind it",
                "A ball blocks the door: move it, take the key, unlock the door, and pick up the box in the next room.",
            ],
            Kind::ObstructedMaze => [
                "unlock a door and take the blue ball behind it",
                "Take the key, unlock the door, drop the key, and pick up the blue ball in the next room.",
            ],
            Kind::KeyCorridor => [
                "find a key in side rooms and take the ball behind a locked door",
                "Rooms on both sides of a corridor, with doors. Find the key, unlock the locked door, and pick up the ball.",
            ],
            Kind::MultiRoom { .. } => [
                "walk through a chain of rooms to the goal",
                "Open the doors from room to room with toggle and reach the goal in the last.",
            ],
            Kind::LavaGap => [
                "cross a strip of lava through its gap",
                "Reach the goal through the one gap in a column of lava. Stepping on lava ends the episode with 0.",
            ],
            Kind::Crossing { lava: true } => [
                "cross a river of lava through its gap",
                "Reach the goal through the one gap in a river of lava. Stepping on lava ends the episode with 0.",
            ],
            Kind::Crossing { lava: false } => {
                ["cross a wall through its gap", "Reach the goal through the one gap in a wall."]
            }
            Kind::DistShift => [
                "walk around lava to the goal",
                "Reach the goal at the other end of the top row, around two rows of lava.",
            ],
            Kind::Memory { .. } => [
                "remember an object and go to the same one",
                "See an object in the start room, walk down the hallway, and turn to the side where the same object lies. Solving it \
                 requires a policy with memory.",
            ],
            Kind::DynamicObstacles { .. } => [
                "walk to the goal among moving balls",
                "Balls move at random. Reach the goal; walking into a ball or a wall ends the episode with -1.",
            ],
            Kind::RedBlueDoors => [
                "open the red door, then the blue one",
                "Open the red door first and then the blue door with toggle. Opening blue first ends the episode with 0.",
            ],
            Kind::GoToDoor => [
                "use `done` next to the door of a given colour",
                "Four doors; the mission names a colour. Use the action `done` next to that door; `done` elsewhere, or toggle \
                 anywhere, ends the episode with 0.",
            ],
            Kind::Fetch => [
                "pick up the object that the mission names",
                "Two objects; the mission names one. Picking up the other ends the episode with 0.",
            ],
            Kind::PutNear => [
                "put one object next to another",
                "Pick up the object that the mission names and drop it next to the other; a wrong move ends the episode with 0.",
            ],
            Kind::LockedRoom => [
                "find the key to a locked room and reach the goal in it",
                "Six rooms along a corridor. The mission names the locked room's colour and the colour of the room with its key.",
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missions_have_the_words_of_the_package() {
        let text = |name: &str, numbers: &[u32]| {
            let task = TASKS.iter().find(|task| task.name == name).expect("a task");
            assert_eq!(task.mission().len(), numbers.len());
            task.mission_text(numbers)
        };
        assert_eq!(text("gotodoor_5x5", &[2]), "go to the blue door");
        assert_eq!(text("keycorridor_s3r1", &[1]), "pick up the green ball");
        assert_eq!(text("unlockpickup", &[0]), "pick up the red box");
        assert_eq!(text("blockedunlockpickup", &[4]), "pick up the yellow box");
        assert_eq!(text("lockedroom", &[3, 5]), "get the purple key from the grey room");
        assert_eq!(text("fetch_5x5_n2", &[2, 5, 5]), "fetch a grey key");
        assert_eq!(text("putnear_6x6_n2", &[3, 6, 2, 5]), "put the purple ball near the blue key");
        assert_eq!(text("putnear_6x6_n2", &[0, 7, 4, 7]), "put the red box near the yellow box");
        for task in TASKS {
            let numbers: Vec<u32> = task.mission().iter().map(|below| below - 1).collect();
            assert_eq!(task.mission_text(&numbers).is_empty(), numbers.is_empty(), "{}", task.name);
            assert_eq!(task.mission_names().is_empty(), numbers.is_empty(), "{}", task.name);
        }
    }
}

//! The player: crafting, doing, placing, walking, and needs.

use operant_lane::{Float, Int, Lane, Mask, Uint};

use super::State;
use super::blocks::{
    self, At, COAL, DIAMOND, FURNACE, GRASS, IRON, LAVA, PATH, PLANT, RIPE, SOLID, STONE, TABLE, TREE, WATER,
};
use super::mobs::{COWS, SKELETONS, ZOMBIES};

/// Actions.
pub const LEFT: u32 = 1;
pub const RIGHT: u32 = 2;
pub const UP: u32 = 3;
pub const DOWN: u32 = 4;
pub const DO: u32 = 5;
pub const SLEEP: u32 = 6;
pub const PLACE_STONE: u32 = 7;
pub const PLACE_TABLE: u32 = 8;
pub const PLACE_FURNACE: u32 = 9;
pub const PLACE_PLANT: u32 = 10;
/// The first of six: pickaxes of wood, stone and iron, then swords.
pub const MAKE: u32 = 11;

/// Items.
pub const WOOD: usize = 0;
pub const STONES: usize = 1;
pub const COALS: usize = 2;
pub const IRONS: usize = 3;
pub const DIAMONDS: usize = 4;
pub const SAPLING: usize = 5;
/// The first of six tools, in the order of the actions that make them.
pub const TOOLS: usize = 6;
pub const ITEMS: usize = 12;
/// Most of an item, and of health and needs.
pub const FULL: u32 = 9;

/// Achievements.
pub const ACHIEVEMENTS: [&str; 22] = [
    "collect_wood",
    "place_table",
    "eat_cow",
    "collect_sapling",
    "collect_drink",
    "make_wood_pickaxe",
    "make_wood_sword",
    "place_plant",
    "defeat_zombie",
    "collect_stone",
    "place_stone",
    "eat_plant",
    "defeat_skeleton",
    "make_stone_pickaxe",
    "make_stone_sword",
    "wake_up",
    "place_furnace",
    "collect_coal",
    "collect_iron",
    "collect_diamond",
    "make_iron_pickaxe",
    "make_iron_sword",
];
const COLLECT_WOOD: u32 = 0;
const PLACED_TABLE: u32 = 1;
const EAT_COW: u32 = 2;
const COLLECT_SAPLING: u32 = 3;
const COLLECT_DRINK: u32 = 4;
const PLACED_PLANT: u32 = 7;
const DEFEAT_ZOMBIE: u32 = 8;
const COLLECT_STONE: u32 = 9;
const PLACED_STONE: u32 = 10;
const EAT_PLANT: u32 = 11;
const DEFEAT_SKELETON: u32 = 12;
pub const WAKE_UP: u32 = 15;
const PLACED_FURNACE: u32 = 16;
const COLLECT_COAL: u32 = 17;
const COLLECT_IRON: u32 = 18;
const COLLECT_DIAMOND: u32 = 19;

/// A tool: the achievement of making it, and what it takes.
const MADE: [(u32, &[usize]); 6] = [
    (5, &[WOOD]),
    (13, &[WOOD, STONES]),
    (20, &[WOOD, STONES, COALS, IRONS]),
    (6, &[WOOD]),
    (14, &[WOOD, STONES]),
    (21, &[WOOD, STONES, COALS, IRONS]),
];

/// A number where a mask holds, 0 elsewhere.
#[inline(always)]
fn where_uint<L: Lane>(mask: L::Mask, number: u32) -> L::Uint {
    mask.select(L::Uint::splat(number), L::Uint::splat(0))
}

impl<L: Lane> State<L> {
    /// Where the player is.
    #[inline(always)]
    pub fn player(&self) -> At<L> {
        [self.row, self.column]
    }

    /// Earns an achievement.
    #[inline(always)]
    pub fn earn(&mut self, mask: L::Mask, achievement: u32) {
        self.achievements = self.achievements | where_uint::<L>(mask, 1 << achievement);
    }

    #[inline(always)]
    fn add(&mut self, mask: L::Mask, item: usize, count: u32) {
        self.items[item] = self.items[item] + where_uint::<L>(mask, count);
    }

    #[inline(always)]
    fn take(&mut self, mask: L::Mask, item: usize, count: u32) {
        self.items[item] = self.items[item] - where_uint::<L>(mask, count);
    }

    #[inline(always)]
    fn has(&self, item: usize, count: u32) -> L::Mask {
        self.items[item].ge(L::Uint::splat(count))
    }

    /// The cell beside the player in a direction.
    #[inline(always)]
    pub fn beside(&self, direction: L::Uint) -> At<L> {
        blocks::moved::<L>(self.player(), blocks::offset::<L>(direction))
    }

    /// Whether the player stands on a cell, or a mob is marked on it.
    #[inline(always)]
    pub fn is_occupied(&self, cell: At<L>, place: L::Uint) -> L::Mask {
        let on_player = cell[0].eq(self.row) & cell[1].eq(self.column);
        let mut occupied = on_player;
        for (mob, marked) in self.mob_place.iter().zip(&self.mob_marked) {
            occupied = occupied | (mob.eq(place) & *marked);
        }
        occupied
    }

    /// Takes the marks of the mobs on a place.
    #[inline(always)]
    pub fn clear(&mut self, mask: L::Mask, place: L::Uint) {
        for (marked, mob) in self.mob_marked.iter_mut().zip(&self.mob_place) {
            *marked = *marked & !(mask & mob.eq(place));
        }
    }

    /// Makes a tool, beside a table, and those of iron beside a furnace too.
    pub fn craft(&mut self, action: L::Uint) {
        let u = L::Uint::splat;
        let (mut table, mut furnace) = (u(0), u(0));
        for line in -1..=1 {
            let [cells, _] = blocks::window::<L>(
                &self.map,
                self.row + L::Int::splat(line),
                self.column - L::Int::splat(1),
            );
            table = table | blocks::equal(cells, TABLE);
            furnace = furnace | blocks::equal(cells, FURNACE);
        }
        let near = |cells: L::Uint| (cells & u(0xfff)).ne(u(0));
        let (table, furnace) = (near(table), near(furnace));
        for (tool, (achievement, takes)) in MADE.into_iter().enumerate() {
            let beside = if takes.contains(&IRONS) { table & furnace } else { table };
            let asked = action.eq(u(MAKE + tool as u32)) & beside;
            let mut made = asked;
            for &item in takes {
                made = made & self.has(item, 1);
            }
            for &item in takes {
                self.take(made, item, 1);
            }
            self.add(made, TOOLS + tool, 1);
            self.earn(made, achievement);
        }
    }

    /// Does something to the cell in front: hits mobs, or collects. `luck` is the draw of a sapling.
    pub fn act(&mut self, acts: L::Mask, front: At<L>, luck: L::Float) {
        let (u, zero) = (L::Uint::splat, L::Uint::splat(0));
        let inside = blocks::inside::<L>(front);
        let place = blocks::place::<L>(front);
        let mut damage = u(1);
        for (sword, points) in [2, 3, 5].into_iter().enumerate() {
            damage = damage.max(self.items[TOOLS + 3 + sword] * u(points));
        }
        let (mut hit_any, mut killed_any) = (L::Mask::splat(false), L::Mask::splat(false));
        for (mobs, achievement) in [(ZOMBIES, DEFEAT_ZOMBIE), (COWS, EAT_COW), (SKELETONS, DEFEAT_SKELETON)] {
            let mut hit = L::Mask::splat(false);
            for mob in mobs {
                let here = acts & inside & !hit & self.mob_live[mob] & self.mob_place[mob].eq(place);
                self.mob_health[mob] = self.mob_health[mob] - here.select(damage, zero).to_int();
                hit = hit | here;
                // Hit or not, every mob with health left is alive, those too that had gone; these have no mark.
                let alive = L::Int::splat(0).lt(self.mob_health[mob]);
                killed_any = killed_any | (here & !alive);
                if achievement == EAT_COW {
                    self.eat(here & !alive, 6);
                }
                self.earn(here & !alive, achievement);
                self.mob_live[mob] = acts.select(alive, self.mob_live[mob]);
                self.mob_marked[mob] = self.mob_marked[mob] & self.mob_live[mob];
            }
            hit_any = hit_any | hit;
        }
        self.clear(killed_any, place);
        self.collect(acts & inside & !hit_any, place, luck);
    }

    #[inline(always)]
    fn eat(&mut self, mask: L::Mask, food: u32) {
        let eaten = (self.food + where_uint::<L>(mask, food)).min(L::Uint::splat(FULL));
        self.food = eaten;
        self.hunger = mask.select(L::Uint::splat(0), self.hunger);
    }

    /// Collects the block at a place.
    fn collect(&mut self, mask: L::Mask, place: L::Uint, luck: L::Float) {
        let u = L::Uint::splat;
        let block = blocks::get::<L>(&self.map, place);
        let is = |of: u32| mask & block.eq(u(of));
        let wood = is(TREE);
        let mine = self.has(TOOLS, 1);
        let (stone, coal) = (is(STONE) & mine, is(COAL) & mine);
        let (iron, diamond) = (is(IRON) & self.has(TOOLS + 1, 1), is(DIAMOND) & self.has(TOOLS + 2, 1));
        let sapling = is(GRASS) & luck.lt(L::Float::splat(0.1));
        let (drink, fruit) = (is(WATER), is(RIPE));
        for (mask, item, achievement) in [
            (wood, WOOD, COLLECT_WOOD),
            (stone, STONES, COLLECT_STONE),
            (coal, COALS, COLLECT_COAL),
            (iron, IRONS, COLLECT_IRON),
            (diamond, DIAMONDS, COLLECT_DIAMOND),
            (sapling, SAPLING, COLLECT_SAPLING),
        ] {
            self.add(mask, item, 1);
            self.earn(mask, achievement);
        }
        self.drink = (self.drink + where_uint::<L>(drink, 1)).min(u(FULL));
        self.thirst = drink.select(u(0), self.thirst);
        self.earn(drink, COLLECT_DRINK);
        self.eat(fruit, 4);
        self.earn(fruit, EAT_PLANT);
        // The first plant of the list at the place, or the first of all.
        let mut found = L::Mask::splat(false);
        for plant in 0..self.plant_age.len() {
            let here = fruit & !found & self.plant_place[plant].eq(place);
            self.plant_age[plant] = here.select(u(0), self.plant_age[plant]);
            found = found | here;
        }
        self.plant_age[0] = (fruit & !found).select(u(0), self.plant_age[0]);
        let left = wood.select(u(GRASS), fruit.select(u(PLANT), u(PATH)));
        let mined = stone | coal | iron | diamond;
        blocks::put::<L>(&mut self.map, wood | mined | fruit, place, left);
        self.tunnel(mined, place);
    }

    /// Places a block in front.
    pub fn place(&mut self, action: L::Uint, front: At<L>) {
        let u = L::Uint::splat;
        let place = blocks::place::<L>(front);
        let free = blocks::inside::<L>(front) & !self.is_occupied(front, place);
        let block = blocks::get::<L>(&self.map, place);
        let ground = !blocks::is_in(block, SOLID);
        let mut put = L::Mask::splat(false);
        let mut what = u(0);
        let water = block.eq(u(WATER));
        for (of, on, item, cost, achievement, placed) in [
            (PLACE_STONE, ground | water, STONES, 1, PLACED_STONE, STONE),
            (PLACE_TABLE, ground, WOOD, 2, PLACED_TABLE, TABLE),
            (PLACE_FURNACE, ground, STONES, 1, PLACED_FURNACE, FURNACE),
            (PLACE_PLANT, block.eq(u(GRASS)), SAPLING, 1, PLACED_PLANT, PLANT),
        ] {
            let does = action.eq(u(of)) & free & on & self.has(item, cost);
            self.take(does, item, cost);
            self.earn(does, achievement);
            what = does.select(u(placed), what);
            put = put | does;
        }
        blocks::put::<L>(&mut self.map, put, place, what);
        let mut planted = put & what.eq(u(PLANT));
        for plant in 0..self.plant_age.len() {
            let here = planted & !self.plant_used[plant];
            self.plant_place[plant] = here.select(place, self.plant_place[plant]);
            self.plant_age[plant] = here.select(u(0), self.plant_age[plant]);
            self.plant_used[plant] = self.plant_used[plant] | here;
            planted = planted & !here;
        }
    }

    /// Turns, and walks unless something is in the way.
    pub fn walk(&mut self, action: L::Uint) {
        let u = L::Uint::splat;
        let walks = u(LEFT).le(action) & action.le(u(DOWN));
        let to = self.beside(action);
        let place = blocks::place::<L>(to);
        let block = blocks::read::<L>(&self.map, to);
        let lava = block.eq(u(LAVA));
        let free = blocks::inside::<L>(to) & !blocks::is_in(block, SOLID) & !self.is_occupied(to, place);
        let goes = walks & (free | lava);
        self.facing = walks.select(action, self.facing);
        self.row = goes.select(to[0], self.row);
        self.column = goes.select(to[1], self.column);
    }

    /// Ages plants; those of 600 steps are ripe.
    pub fn grow(&mut self) {
        let u = L::Uint::splat;
        for plant in 0..self.plant_age.len() {
            let used = self.plant_used[plant];
            let age = self.plant_age[plant] + where_uint::<L>(used, 1);
            self.plant_age[plant] = age;
            // Older ones have been ripe since.
            blocks::put::<L>(&mut self.map, used & age.eq(u(600)), self.plant_place[plant], u(RIPE));
        }
    }

    /// Sleep, hunger, thirst, fatigue and health.
    pub fn need(&mut self, action: L::Uint) {
        let (u, i) = (L::Uint::splat, L::Int::splat);
        let rested = u(FULL).le(self.energy);
        self.sleeping = self.sleeping | (action.eq(u(SLEEP)) & !rested);
        let wakes = self.sleeping & rested;
        self.wake(wakes);
        let asleep = self.sleeping;
        let more = asleep.select(u(1), u(2));
        let consume = |counter: L::Uint, most: u32, need: L::Uint| {
            let counter = counter + more;
            let over = u(most).lt(counter);
            (over.select(u(0), counter), need - (over & need.ne(u(0))).select(u(1), u(0)))
        };
        (self.hunger, self.food) = consume(self.hunger, 50, self.food);
        (self.thirst, self.drink) = consume(self.thirst, 40, self.drink);
        let fatigue = asleep.select((self.fatigue - i(1)).min(i(0)), self.fatigue + i(1));
        let (tired, fresh) = (i(30).lt(fatigue), fatigue.lt(i(-10)));
        self.energy = (self.energy + where_uint::<L>(fresh, 1)).min(u(FULL))
            - where_uint::<L>(tired & self.energy.ne(u(0)), 1);
        self.fatigue = (tired | fresh).select(i(0), fatigue);
        let well = self.food.ne(u(0)) & self.drink.ne(u(0)) & (self.energy.ne(u(0)) | asleep);
        let recover = self.recover + well.select(asleep.select(i(4), i(2)), asleep.select(i(-1), i(-2)));
        let (heals, hurts) = (i(50).lt(recover), recover.lt(i(-30)));
        let health = self.health + heals.select(i(1), hurts.select(i(-1), i(0)));
        self.health = heals.select(health.min(i(FULL as i32)), health);
        self.recover = (heals | hurts).select(i(0), recover);
        for item in &mut self.items {
            *item = item.min(u(FULL));
        }
    }

    /// Ends sleep by itself or by a zombie, which counts too.
    #[inline(always)]
    pub fn wake(&mut self, mask: L::Mask) {
        self.sleeping = self.sleeping & !mask;
        self.earn(mask, WAKE_UP);
    }
}
